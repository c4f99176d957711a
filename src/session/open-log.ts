// OpenLog: a session as this process has it in memory: the state after the events read so far, and its current users.
import type { HoldfastError } from "../core/errors.ts";
import type { Verdict } from "../core/event.ts";
import type { Session } from "../core/session.ts";
import type { View } from "../core/conversation.ts";
import type { Cached } from "./cache.ts";

/** The functions that stop a session's running handlers. */
export interface Stops {
  running: Set<(reason: HoldfastError) => void> | undefined;
}

/** A view of a conversation, and the version of the last event that it includes. */
export interface KeptView {
  view: View;
  version: number;
}

export interface OpenLog extends Cached, Stops {
  session: Session;
  /** The log's mark at the session's version: a short string that identifies all its entries. */
  mark: string;
  /** Bytes appended to the log since the newest snapshot, and the size of the whole state when it was last written. */
  bytesSinceSnapshot: number;
  snapshotBytes: number;
  /** Milliseconds that the current call has already waited for the store, because the store's limit is per call. */
  waited: number;
  /** Milliseconds that all calls together have waited for the store while they held the log. */
  storeTime: number;
  /** Milliseconds that a caller has waited for the session's load. Set only while this caller starts its work. */
  loading: number;
  /** When this process last committed to the log, by the monotonic clock; undefined if it never did. */
  committedAt: number | undefined;
  /** Whether a caller holds the log exclusively, and the callers that wait for it. */
  busy: boolean;
  waiting: Waiter[] | undefined;
  /** The number of snapshots of the state that calls read. `owned`: the state's objects that no snapshot shares. */
  holders: number;
  owned: WeakSet<object> | undefined;
  /** Set while the session is being ended. Calls that have not started are refused with this reason. */
  ending: HoldfastError | undefined;
  /** Running calls with an id, and model requests, by key. A retry waits for the running call. */
  runningCalls: Map<string, Promise<unknown>> | undefined;
  /** The newest running verify: the version that it judges, and the digest of its question. */
  judging: { judged: number; digest: string; verdict: Promise<Verdict> } | undefined;
  /** For a conversation: its views, and the size in bytes of the events that they were built from. */
  views: { bytes: number; byKey: Map<string, KeptView> } | undefined;
}

export interface Waiter {
  /**
   * When the caller began to wait, as a `performance.now()` time, and the log's `storeTime` then. The time for loading
   * the session counts as waiting.
   */
  since: number;
  storeTime: number;
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
    storeTime: 0,
    loading: 0,
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
    runningCalls: undefined,
    judging: undefined,
    views: undefined,
  };
}

/** Runs a call so that its retries find it under a key while it runs. */
export async function findable<T>(log: OpenLog, key: string, run: () => Promise<T>): Promise<T> {
  const running = run();
  log.runningCalls ??= new Map();
  log.runningCalls.set(key, running);
  try {
    return await running;
  } finally {
    // A later call may have taken the key, and may have ended before this one.
    if (log.runningCalls?.get(key) === running) log.runningCalls.delete(key);
    // An idle session keeps no empty map, because there are many idle sessions.
    if (log.runningCalls?.size === 0) log.runningCalls = undefined;
  }
}
