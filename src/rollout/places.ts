// createPlaces(): limits the number of concurrent episodes, and shares the slots fairly between requests.
import { onAbort } from "../io/abort.ts";

export interface Places {
  /** Returns a lane for one request. The lane has at most this many slots at a time. */
  lane(most: number): Lane;
}

/** To share fairly, enter again only after the previous `enter` has resolved. */
export interface Lane {
  /** Waits for a slot. Returns false if the signal aborts first. */
  enter(signal: AbortSignal): Promise<boolean>;
  leave(): void;
}

/**
 * Shares slots fairly: a free slot goes to the lane that has waited longest, and each lane waits for one slot at a
 * time.
 *
 * @example
 * const places = createPlaces(512); // for the requests of two environments
 * const [a, b] = [shop, library].map((given) => createRolloutRequests({ ...given, places }));
 */
export function createPlaces(most: number): Places {
  let free = most;
  const waiting: { hasRoom(): boolean; enter(): void }[] = [];

  function admit(): void {
    const at = free > 0 ? waiting.findIndex(({ hasRoom }) => hasRoom()) : -1;
    if (at < 0) return;
    waiting.splice(at, 1)[0]?.enter();
    admit();
  }

  return {
    lane(mostHere) {
      let used = 0;
      const hasRoom = (): boolean => used < mostHere;
      const take = (): void => {
        used++;
        free--;
      };
      return {
        async enter(signal) {
          if (signal.aborted) return false;
          // If this lane has room and a slot is free, no lane is waiting for the slot.
          if (free > 0 && hasRoom()) {
            take();
            return true;
          }
          return new Promise((resolve) => {
            const waiter = {
              hasRoom,
              enter() {
                stopListening();
                take();
                resolve(true);
              },
            };
            const stopListening = onAbort(signal, () => {
              waiting.splice(waiting.indexOf(waiter), 1);
              resolve(false);
            });
            waiting.push(waiter);
          });
        },
        leave() {
          used--;
          free++;
          admit();
        },
      };
    },
  };
}
