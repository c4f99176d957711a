// surviveStrayRejections(): reports a rejected promise that nothing awaits, and keeps the process alive.
import { plain } from "../io/plain.ts";
import { authorsLine, describeThrown, isOwnFault } from "../session/thrown.ts";

const mostReported = 1_000;

/**
 * Keeps the process alive if an author's code leaves a promise that is rejected later. Node would end the process, with
 * everyone's sessions. Each error is reported once. `isDebugging`: whether its stack trace is printed too.
 */
export function surviveStrayRejections(isDebugging = (): boolean => false): void {
  const reported = new Set<string>();
  process.on("unhandledRejection", (thrown) => {
    if (isOwnFault(thrown)) throw thrown;
    const { error, place, stack } = describeThrown(thrown, "a promise that nothing awaits");
    const what = `${error} in ${place}`;
    if (reported.has(what) || reported.size >= mostReported) return;
    reported.add(what);
    const line = authorsLine(thrown)
      ? `error thrown by your code: ${what}; await it, or catch its error`
      : `error that nothing handles: ${what}`;
    process.stderr.write(`${plain(isDebugging() && stack !== undefined ? `${line}\n${stack}` : line)}\n`);
  });
}
