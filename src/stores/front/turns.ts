// One session after the other, for drivers that answer at once: each goes on for a while before the next is answered.

/** How often a session is served in a row, and after how many milliseconds the event loop gets its turn. */
const [inARow, longest] = [8, 10];

/** Somebody who waits for a turn. */
export interface InTurn {
  readonly session: string;
  run(): void;
}

/**
 * Answered at once, thousands of sessions would change places at every `await`, each with the processor's caches full of
 * the others' data, and keep timers and connections waiting. So only the session that was served last is served at once, a
 * few times. All others wait, each until all that follows from the answer before it is done.
 */
export function createTurns() {
  let queue: (InTurn | undefined)[] = [];
  // Those ahead of the queue, of which so many were served.
  let ahead: (InTurn | undefined)[] = [];
  let served = 0;
  let isScheduled = false;
  let last = "";
  let row = 0;
  let since = performance.now();

  // A tick that is asked for by a microtask comes when no microtask is left; one that is asked for by a tick comes before.
  function schedule(): void {
    isScheduled = true;
    const now = performance.now();
    if (now - since < longest) return queueMicrotask(serveNextTick);
    since = now;
    setImmediate(serveNext);
  }

  function serveNextTick(): void {
    process.nextTick(serveNext);
  }

  function serveNext(): void {
    if (served === ahead.length) {
      [ahead, queue] = [queue, []];
      served = 0;
    }
    const next = ahead[served]!;
    ahead[served++] = undefined;
    if (served < ahead.length || queue.length > 0) schedule();
    else isScheduled = false;
    last = next.session;
    row = 0;
    next.run();
  }

  return {
    /** Whether a session need not wait. Must be served then. Nobody is overtaken: commits keep the order of asking. */
    isNext: (session: string): boolean => !isScheduled && session === last && ++row < inARow,
    wait(waiting: InTurn): void {
      queue.push(waiting);
      if (!isScheduled) schedule();
    },
  };
}
