// Helpers that write logs to a store and describe its expected content.
import assert from "node:assert/strict";
import { ellipsis } from "../../core/ellipsis.ts";
import type { Appended, Commit, Entry, Filter, Heading, Listed, NewEntry, Store } from "../../core/store.ts";

/** Base time of the entries, so that times look realistic. */
export const noon = 1_700_000_000_000;

export interface CommitOptions {
  session: string;
  version: number;
  seen?: string;
  /** A string is short for an entry with that body. */
  entries?: (string | Partial<NewEntry>)[];
  heading?: Partial<Heading>;
  snapshot?: string;
}

/** Completes a commit: one entry by default, and the heading that version 0 needs. */
export function buildCommit(given: CommitOptions): Commit {
  const { session, version, seen, entries = [`{"n":${version + 1}}`], heading, snapshot } = given;
  const [first, ...rest] = entries.map((entry, index): NewEntry => {
    const given = typeof entry === "string" ? { body: entry } : entry;
    return { body: `{"n":${version + 1 + index}}`, at: noon + version + index, ...given };
  });
  assert.ok(first, "a commit has at least one entry");
  return {
    session,
    version,
    ...(seen !== undefined && { seen }),
    entries: [first, ...rest],
    ...((version === 0 || heading) && { heading: { environment: "shop", opened: noon, ...heading } }),
    ...(snapshot !== undefined && { snapshot: { version: version + entries.length, body: snapshot } }),
  };
}

/** Appends a commit and returns the store's answer. */
export function append(store: Store, given: CommitOptions): Promise<Appended> {
  return store.append(buildCommit(given));
}

/** Appends a commit, and fails unless the answer is `expected`. */
export async function expectAnswer(
  store: Store,
  given: CommitOptions,
  expected: Appended,
  message?: string,
): Promise<void> {
  assert.equal(await append(store, given), expected, message);
}

/** Appends a commit, and fails unless the answer is "ok". */
export async function write(store: Store, given: CommitOptions): Promise<void> {
  const answer = await append(store, given);
  assert.equal(answer, "ok", `the commit on version ${given.version} of ${show(given.session)} returned`);
}

/** Opens a session and extends it to a version, one entry per commit. */
export async function grow(
  store: Store,
  session: string,
  version: number,
  heading: Partial<Heading> = {},
): Promise<void> {
  await write(store, { session, version: 0, heading });
  for (let at = 1; at < version; at++) await write(store, { session, version: at });
}

type BareEntry = Pick<Entry, "version" | "body">;

/** Removes times and keys from entries. */
export function bare<T extends Entry | Entry[] | undefined>(found: T): T extends Entry[] ? BareEntry[] : BareEntry {
  const toBare = ({ version, body }: Entry): BareEntry => ({ version, body });
  return (Array.isArray(found) ? found.map(toBare) : found && toBare(found)) as never;
}

export async function markOf(store: Store, session: string): Promise<string> {
  return (await store.load(session))!.mark;
}

/** Returns entries with these bodies, numbered from `after` + 1. */
export function numbered(bodies: string[], after = 0): BareEntry[] {
  return bodies.map((body, index) => ({ version: after + index + 1, body }));
}

export async function readBodies(store: Store, session: string): Promise<string[]> {
  return ((await store.read(session, 0)) ?? []).map(({ body }) => body);
}

/** Returns the default bodies written by `grow` and `buildCommit`. */
export function bodiesUpTo(version: number, after = 0): string[] {
  return Array.from({ length: version - after }, (_, index) => `{"n":${after + index + 1}}`);
}

/** Checks a whole log through read, load and list. */
export async function expectLog(store: Store, session: string, bodies: string[] | undefined, when = ""): Promise<void> {
  const what = `the log of ${show(session)}${when && ` ${when}`}`;
  const row = (await collect(store)).find((row) => row.session === session);
  const entries = await store.read(session, 0);
  const loaded = await store.load(session, bodies?.length);
  if (bodies === undefined) {
    assert.equal(entries, undefined, `${what} should not be readable`);
    assert.equal(loaded, undefined, `${what} should not be loadable`);
    assert.equal(row, undefined, `${what} should not be listed`);
    return;
  }
  assert.deepEqual(bare(entries), numbered(bodies), `${what}, read`);
  const start = loaded?.snapshot?.version ?? 0;
  assert.deepEqual(bare(loaded?.entries), numbered(bodies.slice(start), start), `${what}, loaded`);
  assert.equal(row?.version, bodies.length, `the version of ${show(session)}${when && ` ${when}`}, listed`);
}

export async function collect(store: Store, filter?: Filter): Promise<Listed[]> {
  const rows: Listed[] = [];
  for await (const row of store.list(filter)) rows.push(row);
  return rows;
}

/** Returns the ids of a listing, in order. */
export async function ids(store: Store, filter?: Filter): Promise<string[]> {
  return (await collect(store, filter)).map(({ session }) => session);
}

/** Removes undefined members, which a store may write or leave out. */
export function tidy(row: Listed | undefined): Listed | undefined {
  return (
    row && (Object.fromEntries(Object.entries(row).filter(([, value]) => value !== undefined)) as unknown as Listed)
  );
}

export async function findRow(store: Store, session: string): Promise<Listed | undefined> {
  return tidy((await collect(store)).find((row) => row.session === session));
}

/** Formats a string so that odd characters are visible in a message. */
export function show(text: string): string {
  const shown = JSON.stringify(text).replaceAll(/[^ -~]/gu, (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`);
  return ellipsis(shown, 60);
}
