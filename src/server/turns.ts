// createTurns(): spreads work over turns of the event loop, so that other requests are served in between.

/**
 * After a turn longer than `shortTurn` ms, the queue pauses for the same time. After a turn longer than `longTurn` ms,
 * the pause is longer than the turn.
 */
const [shortTurn, longTurn] = [1, 20];

/** Queues work. Among waiting work, the highest priority runs first. Default priority: 0. */
export type InTurn = (work: () => void, priority?: number) => void;

/**
 * Returns a function that queues work. Each turn of the event loop does at most `most` pieces of it. After a turn
 * longer than 1 ms, the queue pauses for the same time. After a turn of 20 n ms, it pauses n times as long.
 */
export function createTurns(most: number): InTurn {
  const waiting: { next: () => void; priority: number }[] = [];
  let isScheduled = false;
  let start = 0;

  function schedule(): void {
    isScheduled = true;
    setImmediate(work);
    // `rest` runs in the same phase as `work`, after the callbacks of promises that `work` settled.
    setImmediate(rest);
  }

  function work(): void {
    start = performance.now();
    for (let count = 0; count < most; count++) takeNext()?.();
  }

  function takeNext(): (() => void) | undefined {
    let best = 0;
    for (let at = 1; at < waiting.length; at++) if (waiting[at]!.priority > waiting[best]!.priority) best = at;
    return waiting.splice(best, 1)[0]?.next;
  }

  function rest(): void {
    const took = performance.now() - start;
    if (waiting.length === 0) isScheduled = false;
    else if (took > shortTurn) setTimeout(schedule, took * Math.max(1, took / longTurn));
    else schedule();
  }

  return (next, priority = 0) => {
    waiting.push({ next, priority });
    if (!isScheduled) schedule();
  };
}
