// surviveStrayErrors(): reports errors of an author's code that nothing can catch, and keeps the process alive.
import { inspect } from "node:util";
import { plain } from "../io/plain.ts";
import { authorsLine, describeThrown, isAuthorsCallback, isOwnFault, shortenPath } from "../session/thrown.ts";

const mostReported = 1_000;

const reported = new Set<string>();
let count: ((what: string) => void) | undefined;

/**
 * Keeps the process alive if an author's code leaves a promise that is rejected later, or throws in a timer or another
 * callback of Node. Node would end the process, with everyone's sessions. Each error is reported once. `isDebugging`:
 * whether its stack trace is printed too.
 */
export function surviveStrayErrors(isDebugging = (): boolean => false): void {
  process.on("unhandledRejection", (thrown) => {
    if (isOwnFault(thrown)) throw thrown;
    report(thrown, "a promise that nothing awaits", "await it, or catch its error");
  });
  process.on("uncaughtException", (thrown) => {
    if (isAuthorsCallback(thrown)) return report(thrown, "a callback", "catch it in the callback");
    // The error may have interrupted Holdfast's own code, so its state may be wrong.
    process.stderr.write(`${inspect(thrown)}\n`);
    process.exit(1);
  });

  function report(thrown: unknown, where: string, advice: string): void {
    const { error, place, stack } = describeThrown(thrown, where);
    const what = `${error} in ${place}`;
    const isAuthors = authorsLine(thrown) !== undefined;
    if (isAuthors) count?.(what);
    if (reported.has(what) || reported.size >= mostReported) return;
    reported.add(what);
    const line = isAuthors ? `error thrown by your code: ${what}; ${advice}` : `error that nothing handles: ${what}`;
    process.stderr.write(`${plain(isDebugging() && stack !== undefined ? `${line}\n${stack}` : line)}\n`);
  }
}

/**
 * Watches the process while a collection runs. `onError` counts the errors of the author's code that nothing can catch.
 * If the process ends, for example because a tool calls `process.exit`, prints why and `advice`, and the exit fails.
 * Returns a function that ends the watch.
 */
export function watchProcess(onError: (what: string) => void, advice: () => string | undefined): () => void {
  const onExit = (code: number): void => {
    const told = advice();
    if (told === undefined) return;
    // process.exit() calls this listener, so the stack trace shows who called it.
    const line = authorsLine(new Error("exit"));
    const who = line ? `${shortenPath(line.path)}:${line.line} ended the process` : "the process ended";
    process.stderr.write(plain(`${who} with exit code ${code} before the collection was complete; ${told}\n`));
    if (code === 0) process.exitCode = 1;
  };
  count = onError;
  process.once("exit", onExit);
  return () => {
    count = undefined;
    process.off("exit", onExit);
  };
}
