// createReading(): reads rollout requests' lines from their logs, for any number of readers. A reader holds one page.
import { EventEmitter, once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { HoldfastError } from "../../core/errors.ts";
import type { Entry, Store } from "../../core/store.ts";
import { onAbort } from "../../io/abort.ts";
import type { MemoryLimit } from "./memory-limit.ts";
import { findLine, isEnd, isLine, lineCounts, lineText, logName, logsName } from "./log.ts";

/** A request in a list. */
export interface RequestInfo {
  request: string;
  state: "running" | "ended";
  /** When the request started, in milliseconds since 1970. */
  opened: number;
  /** Number of rollouts that have ended, and how many of them failed. */
  done: number;
  failed: number;
}

export interface LinesOptions {
  /** Yields the lines after this index. */
  after?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** Milliseconds without a line after which a reader gets a line of type "waiting". */
const silence = 5_000;
/** Milliseconds between two reads of a log that another process writes. */
const pollEvery = 200;
/** Entries and bytes that one reader holds, unless one entry or group is larger. */
const pageEntries = 64;
const pageBytes = 256 * 1024;

/** `keep` is called with a request that has not ended and has no new line, so that some process runs it. */
export function createReading(store: Store, environment: string, limit: MemoryLimit, keep: (request: string) => void) {
  const changes = new EventEmitter().setMaxListeners(0);

  async function* lines(request: string, options: LinesOptions = {}): AsyncGenerator<string> {
    let isRead = false;
    limit.opened(request);
    try {
      isRead = yield* linesUntilEnd(request, options);
    } finally {
      await limit.left(request, isRead);
    }
  }

  /** Returns whether the last line was read. */
  async function* linesUntilEnd(
    request: string,
    { after = 0, signal }: LinesOptions,
  ): AsyncGenerator<string, boolean, undefined> {
    const session = logName(environment, request);
    const from = await startAfter(request, after);
    if (from && isEnd(from)) return true;
    let version = from?.version ?? 0;
    for (let since = performance.now(); ;) {
      if (signal?.aborted) return false;
      const entries = await store.read(session, version, pageEntries, pageBytes);
      if (entries === undefined) throw goneRequest(request);
      for (const entry of entries) {
        version = entry.version;
        if (!isLine(entry)) continue;
        const text = await lineText(store, session, entry);
        if (text === undefined) throw goneRequest(request);
        yield text;
        since = performance.now();
        if (isEnd(entry)) return true;
      }
      if (entries.length > 0) continue;
      keep(request);
      const left = since + silence - performance.now();
      if (left <= 0) {
        yield '{"type":"waiting"}';
        since = performance.now();
      } else await changed(session, Math.min(left, pollEvery), signal);
    }
  }

  /** Returns the line with this index; undefined for 0, the start. */
  async function startAfter(request: string, index: number): Promise<Entry | undefined> {
    const session = logName(environment, request);
    const line = index === 0 ? undefined : await findLine(store, session, index);
    if (line) return line;
    if (!(await store.read(session, 0, 1))) throw unknownRequest(request);
    if (index === 0) return undefined;
    throw new HoldfastError("version_not_found", `the request ${request} has no line ${index}; use an earlier index`);
  }

  /** Waits for a change of a log, at most this many milliseconds. */
  async function changed(session: string, within: number, signal: AbortSignal | undefined): Promise<void> {
    const stop = new AbortController();
    const stopListening = onAbort(signal, () => stop.abort());
    const change = once(changes, session, { signal: stop.signal });
    await Promise.race([change, delay(within, undefined, { signal: stop.signal })]).catch(() => undefined);
    stopListening();
    stop.abort();
  }

  async function* list(after?: string): AsyncGenerator<RequestInfo> {
    const filter = { environment: logsName(environment) };
    const from = after === undefined ? filter : { ...filter, after: logName(environment, after) };
    for await (const { session, version, opened, ended } of store.list(from)) {
      const request = session.slice(logName(environment, "").length);
      yield { request, state: ended ? "ended" : "running", opened, ...(await countsAt(session, version)) };
    }
  }

  /** Reads the counts of the newest line. */
  async function countsAt(session: string, newest: number): Promise<{ done: number; failed: number }> {
    // Reads few entries at first: rows may be large, and the newest entry is usually a line.
    for (let [end, size] = [newest, 1]; end > 0; [end, size] = [end - size, 4 * size]) {
      const entries = (await store.read(session, Math.max(0, end - size), Math.min(end, size))) ?? [];
      const line: Entry | undefined = entries.findLast(isLine);
      if (line) return lineCounts(line);
    }
    return { done: 0, failed: 0 };
  }

  return {
    lines,
    list,
    /** Refuses an unknown request or index immediately, before the first line is requested. */
    startAfter,
    /** Wakes the readers of a request. */
    wake: (request: string): void => void changes.emit(logName(environment, request)),
  };
}

export function unknownRequest(request: string): HoldfastError {
  const message = `the rollout request ${request} does not exist; start it with POST /v1/rollouts`;
  return new HoldfastError("not_found", message);
}

function goneRequest(request: string): HoldfastError {
  const message = `the rows of the rollout request ${request} are no longer available: the request was deleted, or the in-memory store dropped it because of its age`;
  return new HoldfastError("not_found", message);
}
