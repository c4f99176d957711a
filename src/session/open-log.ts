// An open log: the fold of a session's log as far as this process has read it, and its current users in the process.
import type { HoldfastError } from "../core/errors.ts";
import type { Session } from "../core/session.ts";
import type { View } from "../core/conversation.ts";
import type { Cached } from "./cache.ts";

/** Stops the handlers that run on a session. */
export interface Stops {
  running: Set<(reason: HoldfastError) => void> | undefined;
}

/** A view on a conversation, and the version up to which it has read the log. */
export interface KeptView {
  view: View;
  version: number;
}

export interface OpenLog extends Cached, Stops {
  session: Session;
  /** The log's mark at the session's version. */
  mark: string;
  /** Bytes in the log since the newest snapshot, and the size of the whole state when it was last written. */
  bytesSinceSnapshot: number;
  snapshotBytes: number;
  /** Milliseconds that the current call has waited for the store in failed attempts. */
  waited: number;
  /** When this process last committed to the log, by the monotonic clock; undefined if it never did. */
  committedAt: number | undefined;
  /** Whether the log is held exclusively, and the callers that wait for it. */
  busy: boolean;
  waiting: Waiter[] | undefined;
  /** The number of snapshots in use; `owned` holds the parts of the state that no snapshot shares. */
  holders: number;
  owned: WeakSet<object> | undefined;
  /** Set while the session is being ended. Calls that have not started are refused with this reason. */
  ending: HoldfastError | undefined;
  /**
   * Concurrent and external calls that are running, by key. A retry that arrives in the meantime waits for its call.
   */
  concurrentCalls: Map<string, Promise<unknown>> | undefined;
  /** For a conversation: its views, and the size in bytes of the events that they were built from. */
  views: { bytes: number; byKey: Map<string, KeptView> } | undefined;
}

export interface Waiter {
  since: number;
  next(): void;
  fail(error: HoldfastError): void;
}

export function createOpenLog(
  id: string,
  session: Session,
  mark: string,
  bytesSinceSnapshot: number,
  snapshotBytes: number,
): OpenLog {
  // One object literal, so that all open logs share one hidden class.
  return {
    id,
    session,
    mark,
    bytesSinceSnapshot,
    snapshotBytes,
    waited: 0,
    committedAt: undefined,
    uses: 0,
    older: undefined,
    newer: undefined,
    busy: false,
    holders: 0,
    waiting: undefined,
    owned: undefined,
    running: undefined,
    ending: undefined,
    concurrentCalls: undefined,
    views: undefined,
  };
}
