// copyLog(): copies one log: compares the existing part, writes the rest, and reads it back.
import { createHash, type Hash } from "node:crypto";
import { HoldfastError, messageOf } from "../../core/errors.ts";
import { eventKey, type Event } from "../../core/event.ts";
import { decode, fold, type Session } from "../../core/session.ts";
import type { Commit, Entry, Heading, Listed, NewEntry, Snapshot, Store } from "../../core/store.ts";

export interface Fate {
  kind: "copied" | "equal" | "differs" | "changed" | "failed";
  /** How many entries were written. */
  entries: number;
  message?: string;
}

export interface LogToCopy {
  from: Store;
  to: Store;
  /** The log is copied up to its listed version, so that it matches its heading. */
  row: Listed;
  /** A log is opened when those before it were. */
  turn: Promise<void>;
  opened(): void;
}

/** About how many bytes are read and written at a time. */
const pageBytes = 4 * 1024 * 1024;
const [firstPage, largestPage] = [32, 2000];

export async function copyLog({ from, to, row, turn, opened }: LogToCopy): Promise<Fate> {
  const { session, version } = row;
  const there = await digestOf(to, session);
  const atStart = there?.version ?? 0;
  if (there !== undefined) opened();
  if (atStart > version) {
    return { kind: "differs", entries: 0, message: `it is at version ${atStart} there, and at ${version} here` };
  }
  const loaded = await from.load(session, version);
  if (loaded === undefined) return gone(0);
  const hash = createHash("sha256");
  const toEntry = entryMaker(row);
  let [seen, written] = [0, 0];

  for await (const page of pagesUpTo(from, session, loaded)) {
    const fresh: NewEntry[] = [];
    for (const entry of page) {
      addTo(hash, entry);
      const made = toEntry(entry);
      seen = entry.version;
      if (seen > atStart) fresh.push(made);
      else if (seen === atStart && hash.copy().digest("hex") !== there?.digest) {
        return { kind: "differs", entries: 0, message: `its first ${atStart} entries are others there` };
      }
    }
    for (const entries of portionsOf(fresh)) {
      const at = atStart + written;
      const isLast = at + entries.length === version;
      if (at === 0) await turn;
      const answer = await to.append(commitOf(row, at, entries, isLast ? loaded.snapshot : undefined));
      opened();
      if (answer !== "ok") {
        return { kind: "differs", entries: written, message: `others write to it there (${answer})` };
      }
      written += entries.length;
    }
  }
  if (seen !== version) return gone(written);
  if (written === 0) return { kind: "equal", entries: 0 };
  const after = await digestOf(to, session);
  if (after?.digest === hash.digest("hex")) return { kind: "copied", entries: written };
  return { kind: "failed", entries: written, message: "it did not come out as it went in" };
}

const gone = (entries: number): Fate => ({ kind: "changed", entries, message: "it was deleted meanwhile" });

/** The part of a log from one version on. That it has ended is told with the last of it. */
function commitOf(row: Listed, version: number, entries: NewEntry[], snapshot: Snapshot | undefined): Commit {
  const { session, environment, opened, parent, ended } = row;
  const commit: Commit = { session, version, entries: entries as [NewEntry, ...NewEntry[]] };
  const hasEnded = ended !== undefined && version + entries.length === row.version;
  const heading: Heading = { environment, opened, ...(parent && { parent }), ...(hasEnded && { ended }) };
  if (version === 0 || hasEnded) commit.heading = heading;
  if (snapshot !== undefined) commit.snapshot = snapshot;
  return commit;
}

/**
 * A store gives no times and keys: they are made of the event, as they were when it was committed. What cannot be folded
 * has an event that this version does not know, and with it perhaps a key that would be lost. Logs that a server keeps for
 * itself need not be of events: they have no keys, and of their times only the newest shows.
 */
function entryMaker({ session, environment, touched }: Listed): (entry: Entry) => NewEntry {
  let folded: Session | undefined;
  let isOwn = false;
  return ({ version, body }) => {
    const event = Object(decode(body, session)) as Event;
    if (version === 1) isOwn = environment.startsWith("holdfast:") && event.type !== "session.opened";
    if (isOwn) return { body, at: touched };
    try {
      folded = fold(folded, event);
    } catch (cause) {
      throw new HoldfastError("store_corrupt", `entry ${version} cannot be read: ${messageOf(cause)}`, { cause });
    }
    if (!Number.isFinite(event.at))
      throw new HoldfastError("store_corrupt", `entry ${version} does not say when it was`);
    const key = eventKey(event);
    return key === undefined ? { body, at: event.at } : { body, at: event.at, key };
  };
}

/** The whole of a log that was loaded, in pages: what comes before its snapshot is read. */
async function* pagesUpTo(
  store: Store,
  session: string,
  { snapshot, entries }: { snapshot?: Snapshot; entries: Entry[] },
): AsyncGenerator<Entry[]> {
  if (snapshot !== undefined) yield* pagesOf(store, session, snapshot.version);
  yield entries;
}

/** The entries of a log up to a version, in pages of about the same size. Nothing if there is no such log. */
async function* pagesOf(store: Store, session: string, version = Infinity): AsyncGenerator<Entry[]> {
  let limit = firstPage;
  for (let after = 0; after < version;) {
    const asked = Math.min(limit, version - after);
    const page = await store.read(session, after, asked);
    const last = page?.at(-1);
    if (page === undefined || last === undefined) return;
    yield page;
    if (page.length < asked) return;
    after = last.version;
    const fitting = Math.ceil((page.length * pageBytes) / Math.max(1, bytesOf(page)));
    limit = Math.max(1, Math.min(fitting, 4 * limit, largestPage));
  }
}

const bytesOf = (entries: { body: string }[]): number => entries.reduce((sum, { body }) => sum + body.length, 0);

function* portionsOf(entries: NewEntry[]): Generator<NewEntry[]> {
  let [from, size] = [0, 0];
  for (const [at, { body }] of entries.entries()) {
    if (at > from && (size + body.length > pageBytes || at - from === largestPage)) {
      yield entries.slice(from, at);
      [from, size] = [at, 0];
    }
    size += body.length;
  }
  if (from < entries.length) yield entries.slice(from);
}

/** The version of a log and the SHA-256 of all that is in it; undefined if there is none. */
async function digestOf(store: Store, session: string): Promise<{ version: number; digest: string } | undefined> {
  const hash = createHash("sha256");
  let version = 0;
  for await (const page of pagesOf(store, session)) {
    for (const entry of page) addTo(hash, entry);
    version = page.at(-1)?.version ?? version;
  }
  return version === 0 ? undefined : { version, digest: hash.digest("hex") };
}

/** A line for each entry, so that no two logs give the same text. */
function addTo(hash: Hash, { version, body }: Entry): void {
  hash
    .update(`${version} ${Buffer.byteLength(body)} `)
    .update(body)
    .update("\n");
}
