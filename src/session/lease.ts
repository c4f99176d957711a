// createLeases(): tracks which process runs a turn, and when another process may take over. A lease is a duration that
// each process measures with its own clock, so the clocks of two machines are never compared. A wrong decision does no
// harm, because a step is committed only if the log is still at the version that its run has seen.
import { randomBytes } from "node:crypto";
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { Lease } from "../core/event.ts";
import type { Session } from "../core/session.ts";
import { isTimeout, timeoutRange } from "../core/timeout.ts";
import type { OpenLog } from "./open-log.ts";

/** Milliseconds without a commit after which a run may lose its turn. It renews its lease after a third to half of this. */
const defaultLease = 15_000;

/** Maximum number of sessions with watched leases. If a session is dropped, its lease is measured anew. */
const mostWatched = 10_000;

/** One run's hold on a turn. */
export interface Hold {
  readonly lease: Lease;
  /** Whether the log names this run as the holder of the open turn. */
  isIn(session: Session): boolean;
  /** Records an accepted commit, with the time at which it was sent. */
  confirm(sent: number): void;
  /**
   * Returns whether it is certain that no other process has taken over. Other processes measure the lease from the
   * moment they see the newest commit, which is later than the moment it was sent. Checked before each effect, with a
   * margin of a sixth of the lease.
   */
  isFresh(): boolean;
  /** Stops the renewals. */
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
    /** Starts to hold a turn. `renew` commits an event that shows that the run is alive. */
    hold(renew: () => Promise<void>): Hold {
      const lease = { owner: `${engine}.${(count++).toString(36)}`, lapsesAfter };
      holding.add(lease.owner);
      let newest = performance.now();
      let isRenewing = false;
      // The timer is unreferenced, so that an abandoned run does not keep the process alive.
      const timer = setInterval(() => {
        if (isRenewing || performance.now() - newest < lapsesAfter / 3) return;
        isRenewing = true;
        // A failed renewal is retried at the next tick.
        void renew()
          .catch(() => undefined)
          .finally(() => (isRenewing = false));
      }, lapsesAfter / 6).unref();
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

/** Creates the error for a request that has not started anything, because another run holds the session. */
export function busyError(session: string, lapsesIn?: number): HoldfastError {
  const until =
    lapsesIn === undefined
      ? ""
      : `; if the agent's process has died, the session becomes free in ${Math.ceil(lapsesIn)} ms`;
  const message = `an agent is already running on session ${session}; nothing was started, retry later${until}`;
  return new HoldfastError("session_busy", message, lapsesIn === undefined ? {} : { detail: { lapsesIn } });
}

export function lostTurn(session: string): HoldfastError {
  const message = `another process took over the turn in session ${session}; send the same call id again to get the outcome`;
  return new HoldfastError("turn_lost", message);
}
