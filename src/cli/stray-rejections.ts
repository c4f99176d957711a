// surviveStrayRejections(): a rejected promise that the author's code neither awaits nor catches is reported.
import { describeThrown, isOwnFault } from "../session/thrown.ts";
import { note } from "./notes.ts";

const mostNotes = 1_000;

/**
 * Keeps the process alive if a tool leaves a promise that is rejected later. Node would end the process, with everyone's
 * sessions. Each error is reported once. `isDebugging`: whether its stack trace is printed too.
 */
export function surviveStrayRejections(isDebugging: () => boolean): void {
  const noted = new Set<string>();
  process.on("unhandledRejection", (thrown) => {
    if (isOwnFault(thrown)) throw thrown;
    const { error, place, stack } = describeThrown(thrown, "a promise that nothing awaits");
    const what = `${error} in ${place}`;
    if (noted.has(what) || noted.size >= mostNotes) return;
    noted.add(what);
    const lines = isDebugging() && stack !== undefined ? `\n${stack}` : "";
    note(`error thrown by your code: ${what}; await it, or catch its error${lines}`);
  });
}
