// createEventReports(): reports a worker's refused and failed rollouts, without a flood of equal lines.
import type { WorkerEvent } from "./worker.ts";

/** Minimum number of milliseconds between two equal reports. */
const sayEvery = 30_000;
/** Maximum number of different reports to remember. */
const mostTold = 1000;

/** Reports refused and failed rollouts. Equal reports are rate-limited and counted. */
export function createEventReports(say: (text: string) => void): (event: WorkerEvent) => void {
  const told = new Map<string, { at: number; times: number }>();
  return ({
    type,
    collection,
    reason = "this worker did not respond for too long, so another one continues the rollout",
  }) => {
    if (type === "played") return;
    // Only the start of the reason decides whether two reports are equal, because the rest may differ each time.
    const key = `${type} ${collection} ${reason.slice(0, 40)}`;
    const before = told.get(key) ?? { at: -Infinity, times: 0 };
    before.times++;
    if (performance.now() - before.at >= sayEvery) {
      const what = `${type}: a rollout of ${collection}: ${reason}`;
      say(before.times === 1 ? what : `${what} (${before.times} times)`);
      before.at = performance.now();
    }
    if (told.size >= mostTold) told.clear();
    told.set(key, before);
  };
}
