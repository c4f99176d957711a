// Leases: who runs a turn of a conversation, how the owner stays known as alive, and when another process may take the turn
// over. A lease is a duration, and each process measures it with its own clock, so clocks of machines are never compared.
// A wrong guess wastes work and breaks nothing: a step is committed only on a version whose fold names its owner.
import { randomBytes } from "node:crypto";
import { HoldfastError } from "../core/errors.ts";
import type { Lease, OpenTurn } from "../core/event.ts";

/** How long an owner may be silent, in milliseconds. It commits a renewal after a third of this without a commit. */
export const defaultLease = 15_000;

/** Milliseconds before the lapse at which an owner stops starting effects. */
const margin = 1_000;

/** An event older than this many leases counts as lapsed when it is first seen, by the wall clock. */
const longSilent = 10;

/** Sessions watched at once. A session that is forgotten is watched anew, for one more lease. */
const mostWatched = 10_000;

/** The owners of one engine. */
export interface Owners {
  /** Names a new owner. It lives until it is ended. */
  begin(): string;
  end(owner: string): void;
  /** Whether this is an owner of this engine that has ended. */
  hasEnded(owner: string): boolean;
}

export function createOwners(): Owners {
  const engine = randomBytes(9).toString("base64url");
  const live = new Set<string>();
  let count = 0;
  return {
    begin() {
      const owner = `${engine}.${(count++).toString(36)}`;
      live.add(owner);
      return owner;
    },
    end(owner) {
      live.delete(owner);
    },
    hasEnded: (owner) => owner.startsWith(`${engine}.`) && !live.has(owner),
  };
}

/** Watches turns that others own. */
export interface Watch {
  /**
   * Gives the milliseconds until a turn may be taken over; 0 if it may be now. `version` is the newest of the session: a new
   * one shows that the owner is alive. `touched` is the time of its newest event.
   */
  remaining(session: string, version: number, turn: OpenTurn, touched: number): number;
}

export function createWatch(owners: Owners, clock: () => number = () => performance.now()): Watch {
  const seen = new Map<string, { version: number; owner: string; since: number }>();
  return {
    remaining(session, version, { lease }, touched) {
      if (!lease || owners.hasEnded(lease.owner)) return 0;
      if (Date.now() - touched > longSilent * lease.lapsesAfter) return 0;
      let known = seen.get(session);
      if (known?.version !== version || known.owner !== lease.owner) {
        known = { version, owner: lease.owner, since: clock() };
        seen.delete(session);
        seen.set(session, known);
        if (seen.size > mostWatched) seen.delete(seen.keys().next().value as string);
      }
      return Math.max(0, known.since + lease.lapsesAfter - clock());
    },
  };
}

/** A turn in the hands of its owner. */
export interface Ownership {
  readonly lease: Lease;
  /** Notes a commit that was accepted, by the time at which it was sent. */
  confirm(sent: number): void;
  /**
   * Throws `turn_lost` if others may take the turn over, or will within the margin. Asked before each effect: an observer
   * cannot have seen the newest commit before it was sent, so it gives up on the owner later than this.
   */
  assertOwner(): void;
  /** Ends the renewals. */
  end(): void;
}

export interface OwnershipOptions {
  session: string;
  lease: Lease;
  /** Commits a renewal. */
  renew(): Promise<void>;
  clock?: (() => number) | undefined;
}

export function createOwnership(options: OwnershipOptions): Ownership {
  const { session, lease, renew, clock = () => performance.now() } = options;
  const third = lease.lapsesAfter / 3;
  let newest = clock();
  let isRenewing = false;
  // Unreferenced: an owner that was left behind keeps no process alive.
  const timer = setInterval(() => {
    if (isRenewing || clock() - newest < third) return;
    isRenewing = true;
    // A renewal that fails is tried again at the next tick. A lost turn is found out by the next commit.
    void renew()
      .catch(() => undefined)
      .finally(() => (isRenewing = false));
  }, third).unref();
  return {
    lease,
    confirm(sent) {
      newest = Math.max(newest, sent);
    },
    assertOwner() {
      if (clock() - newest < lease.lapsesAfter - Math.min(margin, third)) return;
      throw lostTurn(session);
    },
    end: () => clearInterval(timer),
  };
}

export function lostTurn(session: string): HoldfastError {
  const message = `another process has taken over the turn of session ${session}; nothing more of this run is stored`;
  return new HoldfastError("turn_lost", message);
}
