// explainDifference(): finds out whether a replay differs because the author's code calls Math.random() or Date.now().
import { AsyncLocalStorage } from "node:async_hooks";
import { authorsLine, shortenPath } from "../session/thrown.ts";

/** Set while `isSame` runs. `found` describes the first call of Math.random() or Date.now() in the author's code. */
const trial = new AsyncLocalStorage<{ found?: string }>();
let last: Promise<unknown> = Promise.resolve();

/**
 * Runs `isSame` with a fixed clock and fixed random numbers. If it resolves to true, returns a message that names the
 * call and its line. Only one trial runs at a time, because it replaces global functions.
 */
export function explainDifference(isSame: () => Promise<boolean>): Promise<string | undefined> {
  const explained = last.then(async () => {
    const { random } = Math;
    const { now } = Date;
    const today = now();
    Math.random = () => fixed("Math.random()", "random()", 0.5) ?? random();
    Date.now = () => fixed("Date.now()", "now()", today) ?? now();
    try {
      const context: { found?: string } = {};
      return (await trial.run(context, isSame)) ? context.found : undefined;
    } finally {
      Math.random = random;
      Date.now = now;
    }
  });
  last = explained.catch(() => undefined);
  return explained;
}

/** Returns the fixed value if the call came from the author's code during a trial. */
function fixed(call: string, instead: string, value: number): number | undefined {
  const context = trial.getStore();
  const line = context && callersLine();
  if (!line) return undefined;
  const place = `${shortenPath(line.path)}:${line.line}`;
  context.found ??= `${place} calls ${call}, so the code is not deterministic; use ${instead} from the context instead`;
  return value;
}

/** Checks only the direct caller of the replaced function, not code further up the stack. */
function callersLine(): ReturnType<typeof authorsLine> {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 4;
  try {
    return authorsLine(new Error());
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}
