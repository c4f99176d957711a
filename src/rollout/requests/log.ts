// createRequestLog(): a rollout request's log. One process runs the request and writes the log; any process reads it.
import { setTimeout as delay } from "node:timers/promises";
import { HoldfastError, isHoldfastError } from "../../core/errors.ts";
import type { TaskRow } from "../../core/rollout.ts";
import { decode } from "../../core/session.ts";
import type { Commit, Entry, Heading, NewEntry, Store } from "../../core/store.ts";
import { readPages } from "../../stores/front/copy-log.ts";
import { isFailed } from "../row-fields.ts";
import type { ExistingRows, Tries } from "../output.ts";
import { readBranch, rowNodeKey } from "../tree.ts";
import type { RolloutRequest } from "./request.ts";

/** The content of an entry. Lines for the client have an index, which is also the key of their entry. */
export type Written =
  | { type: "request"; digest: string; run: string; asked: RolloutRequest; tasks: string }
  | { type: "begun"; request: string; rollouts: number }
  | { type: "claimed"; owner: string; lapsesAfter: number }
  | { type: "released" }
  | { type: "retried"; node: string }
  | { type: "row"; row: TaskRow }
  /** A row that is waiting for its group. Its entry is the row, and the entry's key is its node. */
  | { type: "kept"; row: TaskRow }
  | { type: "group"; task: number; versions: number[] }
  | { type: "cancelled" }
  | { type: "end"; cancelled: boolean; error?: { code: string; message: string } };

/** The state of a request, computed from its log. */
export interface RequestState extends ExistingRows {
  version: number;
  /** The timestamp of the newest entry. */
  at: number;
  /** The index of the newest line. */
  index: number;
  opened: number;
  request: (Written & { type: "request" }) | undefined;
  failed: number;
  claim: { owner: string; lapsesAfter: number } | undefined;
  isCancelled: boolean;
  isEnded: boolean;
  /** The rows that are waiting for their group, by task. */
  kept: Map<number, KeptRow[]>;
}

export interface KeptRow {
  version: number;
  /** The rollout's number within its task. */
  index: number;
  /** The rollout's place in the tree of forks; "" if the episode was not forked. */
  branch: string;
}

/** Number of retries after a store failure, and the milliseconds before the first retry. */
const mostFailures = 3;
const retryAfter = 50;

/** Prefixes for keys: lines by index, and rows in groups by node. */
const lineKey = "i:";
const keptKey = "k:";

export const isLine = ({ key }: NewEntry): boolean => key?.startsWith(lineKey) ?? false;
export const isEnd = ({ body }: NewEntry): boolean => body.startsWith('{"type":"end"');

/** Reads a line's counts without parsing its row. */
export function lineCounts({ body }: NewEntry): { done: number; failed: number } {
  const [, done, failed] = /^\{"type":"\w+","index":\d+,"done":(\d+),"failed":(\d+)/.exec(body) ?? [];
  return { done: Number(done), failed: Number(failed) };
}

export const logName = (environment: string, request: string): string => `holdfast:rollouts:${environment}:${request}`;
/** The environment name of these logs in the store. */
export const logsName = (environment: string): string => `holdfast:rollouts:${environment}`;

export interface RequestLog {
  readonly state: RequestState;
  /**
   * Appends entries. Throws `turn_lost` if another process has taken over or the request has ended. Simultaneous writes
   * become one commit.
   */
  write(...written: Written[]): Promise<void>;
  /** Reads the entries that other processes have appended. */
  refresh(): Promise<void>;
  /** Reads the log again if a write failed, because the write may have been applied. */
  reread(): Promise<void>;
  /** Returns the additional entries that a write causes, such as a completed group. */
  follow: (state: RequestState, written: Written) => Written[];
}

export interface RequestLogOptions {
  store: Store;
  environment: string;
  request: string;
  /** Returns whether this process may still write. */
  mayWrite(state: RequestState): boolean;
  /** Called after every commit. */
  onWritten(): void;
}

export function createRequestLog(options: RequestLogOptions): RequestLog {
  const { store, environment, request, mayWrite, onWritten } = options;
  const session = logName(environment, request);
  let state = emptyState();
  const waiting: { written: Written[]; resolve: () => void; reject: (thrown: unknown) => void }[] = [];
  let writing: Promise<void> | undefined;

  /** False after a write that was refused or failed, because the log's version is then unknown. */
  let isKnown = true;
  let rereading: Promise<void> | undefined;

  async function readInto(target: RequestState): Promise<void> {
    for await (const page of readPages(store, session, target.version)) {
      for (const entry of page) note(target, parseEntry(entry, session), entry);
    }
  }

  async function readAll(): Promise<void> {
    const fresh = emptyState();
    await readInto(fresh);
    state = fresh;
    isKnown = true;
  }

  async function reread(): Promise<void> {
    if (!isKnown) await (rereading ??= readAll().finally(() => (rereading = undefined)));
  }

  /** Appends all waiting writes up to an end as one commit, and repeats until none are waiting. */
  async function flush(): Promise<void> {
    while (waiting.length > 0) {
      // Nothing is written after the end, so writes that wait behind the end are refused.
      const last = waiting.findIndex(({ written }) => written.some(({ type }) => type === "end"));
      const batch = waiting.splice(0, last < 0 ? waiting.length : last + 1);
      try {
        await append(batch.flatMap(({ written }) => written));
        for (const { resolve } of batch) resolve();
        onWritten();
      } catch (thrown) {
        for (const { reject } of batch) reject(thrown);
      }
    }
    writing = undefined;
  }

  async function append(written: Written[]): Promise<void> {
    let sent: Commit | undefined;
    for (let failures = 0; ;) {
      try {
        if (sent || !isKnown) {
          await reread();
          if (sent && (await isStored(sent))) return;
          if (!mayGoOn(sent)) throw lost(request);
        }
        if (state.isEnded) throw lost(request);
        sent = toCommit(written);
        if ((await store.append(sent)) === "ok") return;
        isKnown = false;
      } catch (thrown) {
        isKnown = false;
        if (!isPassing(thrown) || ++failures > mostFailures) throw thrown;
        await delay(retryAfter * 2 ** (failures - 1));
      }
    }
  }

  function toCommit(written: Written[]): Commit {
    const { version } = state;
    const entries = written.flatMap((one) => entriesFor(one)) as [NewEntry, ...NewEntry[]];
    const isLast = written.some(({ type }) => type === "end");
    return { session, version, entries, ...((version === 0 || isLast) && { heading: heading(isLast) }) };
  }

  /** Returns whether the log has the entries of a commit whose answer was lost. */
  async function isStored({ version, entries }: Commit): Promise<boolean> {
    const stored = (await store.read(session, version, entries.length)) ?? [];
    return entries.every(({ body }, at) => body === stored[at]?.body);
  }

  /** Returns whether this process may write after a commit that was not stored. */
  function mayGoOn(sent: Commit | undefined): boolean {
    if (state.version === sent?.version) return true;
    return state.version > 0 && sent?.version !== 0 && mayWrite(state);
  }

  const heading = (isEnded: boolean): Heading => ({
    environment: logsName(environment),
    opened: state.opened,
    ...(isEnded && { ended: "closed" as const }),
  });

  /** Returns a write's entries, with the entries that follow from it, and adds them to the state. */
  function entriesFor(written: Written): NewEntry[] {
    const entry = toEntry(written, state);
    note(state, written, entry);
    return [entry, ...log.follow(state, written).flatMap(entriesFor)];
  }

  const log: RequestLog = {
    get state() {
      return state;
    },
    refresh: async () => {
      await reread();
      await readInto(state);
    },
    reread,
    follow: () => [],
    write: (...written) =>
      new Promise((resolve, reject) => {
        waiting.push({ written, resolve, reject });
        writing ??= flush();
      }),
  };
  return log;
}

function emptyState(): RequestState {
  return {
    version: 0,
    at: 0,
    index: 0,
    opened: 0,
    request: undefined,
    scored: 0,
    failed: 0,
    claim: undefined,
    isCancelled: false,
    isEnded: false,
    done: new Set(),
    known: new Set(),
    tries: new Map<string, Tries>(),
    kept: new Map(),
  };
}

/** Adds one entry to the state. */
function note(state: RequestState, written: Written, { at, key }: NewEntry): void {
  state.version++;
  state.at = at;
  if (state.version === 1) state.opened = at;
  if (key?.startsWith(lineKey)) state.index++;
  switch (written.type) {
    case "request":
      state.request = written;
      return;
    case "claimed":
      state.claim = { owner: written.owner, lapsesAfter: written.lapsesAfter };
      return;
    case "released":
      state.claim = undefined;
      return;
    case "retried": {
      const { all = 0, open = 0 } = state.tries.get(written.node) ?? {};
      state.tries.set(written.node, { all: all + 1, open: open + 1 });
      return;
    }
    case "row":
    case "kept":
      state.done.add(rowNodeKey(written.row));
      state[isFailed(written.row) ? "failed" : "scored"]++;
      if (written.type === "kept") keep(state, written.row);
      return;
    case "group":
      state.kept.delete(written.task);
      return;
    case "cancelled":
      state.isCancelled = true;
      return;
    case "end":
      state.isEnded = true;
  }
}

function keep({ kept, version }: RequestState, row: TaskRow): void {
  const task = Number(row["_ng_task_index"]);
  const one = { version, index: Number(row["_ng_rollout_index"]), branch: readBranch(row) };
  const rows = kept.get(task);
  if (rows) rows.push(one);
  else kept.set(task, [one]);
}

/** Returns the entry for a write. Its body is the line that the client gets. */
function toEntry(written: Written, state: RequestState): NewEntry {
  const at = Math.max(Date.now(), state.at);
  const isScored = (row: TaskRow): number => (isFailed(row) ? 0 : 1);
  const line = (more: number, isFailure: number, rest: string): NewEntry => {
    const index = state.index + 1;
    const [done, failed] = [state.scored + state.failed + more, state.failed + isFailure];
    const head = `{"type":"${written.type}","index":${index},"done":${done},"failed":${failed}`;
    return { body: `${head},${rest}}`, at, key: `${lineKey}${index}` };
  };
  const fields = (): string => {
    const { type: _, ...rest } = written;
    return JSON.stringify(rest).slice(1, -1);
  };
  switch (written.type) {
    case "row":
      return line(1, 1 - isScored(written.row), `"row":${JSON.stringify(written.row)}`);
    case "kept":
      return { body: JSON.stringify(written.row), at, key: `${keptKey}${rowNodeKey(written.row)}` };
    case "begun":
    case "group":
    case "end":
      return line(0, 0, fields());
    default:
      return { body: JSON.stringify(written), at };
  }
}

function parseEntry({ body, key }: Entry, session: string): Written {
  return key?.startsWith(keptKey) ? { type: "kept", row: decode(body, session) } : decode(body, session);
}

export const findLine = (store: Store, session: string, index: number): Promise<Entry | undefined> =>
  store.find(session, `${lineKey}${index}`);

/**
 * Returns the text of a line for the client; undefined if the log is gone. A group's line is stored with the versions of
 * its rows, and is sent with the rows.
 */
export async function lineText(store: Store, session: string, { body }: Entry): Promise<string | undefined> {
  if (!body.startsWith('{"type":"group"')) return body;
  const { versions, ...line } = JSON.parse(body) as { versions: number[] };
  const rows: string[] = [];
  for (const version of versions) {
    const [row] = (await store.read(session, version - 1, 1)) ?? [];
    if (!row) return undefined;
    rows.push(row.body);
  }
  return `${JSON.stringify(line).slice(0, -1)},"rows":[${rows.join(",")}]}`;
}

/** Returns whether a retry of a failed write may succeed. */
const isPassing = (thrown: unknown): boolean =>
  isHoldfastError(thrown) && (thrown.code === "store_busy" || thrown.code === "store_failed");

function lost(request: string): HoldfastError {
  return new HoldfastError("turn_lost", `the rollout request ${request} has ended, or another process is running it`);
}
