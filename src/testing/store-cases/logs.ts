// Short ways to write a log to a store and to say what a store should hold.
import assert from "node:assert/strict";
import type { Appended, Commit, Entry, Filter, Heading, Listed, NewEntry, Store } from "../../core/store.ts";

/** What the cases date their entries from, so that times look like times. */
export const noon = 1_700_000_000_000;

export interface Given {
  session: string;
  version: number;
  seen?: number;
  /** A string stands for an entry with that body. */
  entries?: (string | Partial<NewEntry>)[];
  heading?: Partial<Heading>;
  snapshot?: string;
}

/** A commit with everything that was not given filled in: one entry, and the heading that version 0 wants. */
export function commitOf(given: Given): Commit {
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

/** Appends and leaves it to the caller to look at the answer. */
export function append(store: Store, given: Given): Promise<Appended> {
  return store.append(commitOf(given));
}

/** Appends what has to succeed. */
export async function write(store: Store, given: Given): Promise<void> {
  const answer = await append(store, given);
  assert.equal(answer, "ok", `the commit on version ${given.version} of ${show(given.session)} was answered with`);
}

/** Opens a session and lets it grow to a version, one entry a commit. */
export async function grow(
  store: Store,
  session: string,
  version: number,
  heading: Partial<Heading> = {},
): Promise<void> {
  await write(store, { session, version: 0, heading });
  for (let at = 1; at < version; at++) await write(store, { session, version: at });
}

/** The entries with these bodies, numbered from the one after a version. */
export function numbered(bodies: string[], after = 0): Entry[] {
  return bodies.map((body, index) => ({ version: after + index + 1, body }));
}

/** The bodies that `grow` and `commitOf` write by themselves. */
export function bodiesUpTo(version: number, after = 0): string[] {
  return Array.from({ length: version - after }, (_, index) => `{"n":${after + index + 1}}`);
}

/** Compares a whole log: by reading it, by loading it, and in the list. */
export async function expectLog(store: Store, session: string, bodies: string[] | undefined, when = ""): Promise<void> {
  const what = `the log of ${show(session)}${when && ` ${when}`}`;
  const row = (await collect(store)).find((row) => row.session === session);
  const entries = await store.read(session, 0);
  const loaded = await store.load(session, bodies?.length);
  if (bodies === undefined) {
    assert.equal(entries, undefined, `${what} should not be there to read`);
    assert.equal(loaded, undefined, `${what} should not be there to load`);
    assert.equal(row, undefined, `${what} should not be listed`);
    return;
  }
  assert.deepEqual(entries, numbered(bodies), `${what}, read`);
  const start = loaded?.snapshot?.version ?? 0;
  assert.deepEqual(loaded?.entries, numbered(bodies.slice(start), start), `${what}, loaded`);
  assert.equal(row?.version, bodies.length, `the version of ${show(session)}${when && ` ${when}`}, listed`);
}

export async function collect(store: Store, filter?: Filter): Promise<Listed[]> {
  const rows: Listed[] = [];
  for await (const row of store.list(filter)) rows.push(row);
  return rows;
}

/** The ids that a listing gives, in its order. */
export async function ids(store: Store, filter?: Filter): Promise<string[]> {
  return (await collect(store, filter)).map(({ session }) => session);
}

/** Without the members that are undefined, which a store may write or leave out. */
export function tidy(row: Listed | undefined): Listed | undefined {
  return (
    row && (Object.fromEntries(Object.entries(row).filter(([, value]) => value !== undefined)) as unknown as Listed)
  );
}

/** The row of one session. */
export async function rowOf(store: Store, session: string): Promise<Listed | undefined> {
  return tidy((await collect(store)).find((row) => row.session === session));
}

/** A string as it can be told apart in a message. */
export function show(text: string): string {
  const shown = JSON.stringify(text).replaceAll(/[^ -~]/gu, (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`);
  return shown.length > 60 ? `${shown.slice(0, 60)}…` : shown;
}
