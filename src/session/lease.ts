// createLeases(): tracks which process runs a turn, and when a different one may take over. A lease is a duration that
// each process measures with its own clock, so the clocks of two machines are never compared. A wrong guess does no
// harm, because each step is committed only on the version that its run has seen.
import { randomBytes } from "node:crypto";
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { Lease } from "../core/event.ts";
import type { Session } from "../core/session.ts";
import { isTimeout, timeoutRange } from "../core/timeout.ts";
import type { OpenLog } from "./open-log.ts";

/** Milliseconds for which a holder may be silent. It commits a renewal after a third of this time without a commit. */
const defaultLease = 15_000;

/** Maximum number of watched sessions. A session dropped from the list is watched anew, for a whole lease. */
const mostWatched = 10_000;

/** One run's hold on a turn. */
export interface Hold {
  readonly lease: Lease;
  /** Whether the log names this run as the holder of the open turn. */
  isIn(session: Session): boolean;
  /** Records an accepted commit, with the time at which it was sent. */
  confirm(sent: number): void;
  /**
   * Returns whether it is certain that no other process has taken over. Others count from the newest commit, which they
   * see after it was sent. Checked before each effect, with a margin of a sixth of the lease.
   */
  isFresh(): boolean;
  /** Ends the renewals. */
  end(): void;
}

export type Leases = ReturnType<typeof createLeases>;

export function createLeases(lapsesAfter = defaultLease) {
  if (!isTimeout(lapsesAfter)) throw invalidOption(`the lease must be ${timeoutRange}`);
  const engine = randomBytes(9).toString("base64url");
  const holding = new Set<string>();
  const watched = new Map<string, { version: number; owner: string; since: number }>();
  let count = 0;

  /** Returns the milliseconds until the open turn may be taken over; 0 if it has no holder. Needs a refreshed log. */
  function remaining({ id, session }: OpenLog): number {
    const lease = session.conversation?.turn?.lease;
    const isOver = lease?.owner.startsWith(`${engine}.`) && !holding.has(lease.owner);
    if (!lease || isOver) {
      watched.delete(id);
      return 0;
    }
    const { version } = session;
    const now = performance.now();
    let seen = watched.get(id);
    if (seen?.version !== version || seen.owner !== lease.owner) {
      seen = { version, owner: lease.owner, since: now };
      watched.delete(id);
      watched.set(id, seen);
      if (watched.size > mostWatched) watched.delete(watched.keys().next().value as string);
    }
    return Math.max(0, seen.since + lease.lapsesAfter - now);
  }

  return {
    remaining,
    /** Returns a refusal while another process runs a turn. */
    refusal(log: OpenLog): HoldfastError | undefined {
      const left = remaining(log);
      return left > 0 ? busyError(log.id, left) : undefined;
    },
    /** Starts to hold a turn. `renew` commits that the run is alive. */
    hold(renew: () => Promise<void>): Hold {
      const lease = { owner: `${engine}.${(count++).toString(36)}`, lapsesAfter };
      holding.add(lease.owner);
      let newest = performance.now();
      let isRenewing = false;
      // Unreferenced, so that an abandoned run does not keep the process alive.
      const timer = setInterval(() => {
        if (isRenewing || performance.now() - newest < lapsesAfter / 3) return;
        isRenewing = true;
        // A failed renewal is retried at the next tick.
        void renew()
          .catch(() => undefined)
          .finally(() => (isRenewing = false));
      }, lapsesAfter / 3).unref();
      return {
        lease,
        isIn: ({ conversation }) => conversation?.turn?.lease?.owner === lease.owner,
        confirm: (sent) => (newest = Math.max(newest, sent)),
        isFresh: () => performance.now() - newest < (lapsesAfter * 5) / 6,
        end() {
          clearInterval(timer);
          holding.delete(lease.owner);
        },
      };
    },
  };
}

/** Creates the refusal for a request that has not started anything. */
export function busyError(session: string, lapsesIn?: number): HoldfastError {
  const until = lapsesIn === undefined ? "" : `; if its process died, the session is free in ${Math.ceil(lapsesIn)} ms`;
  const message = `an agent is running on session ${session}, and this request began nothing: send it again later${until}`;
  return new HoldfastError("session_busy", message, lapsesIn === undefined ? {} : { detail: { lapsesIn } });
}

export function lostTurn(session: string): HoldfastError {
  const message = `another process took over the turn of session ${session}; send the same call id again for its outcome`;
  return new HoldfastError("turn_lost", message);
}
