// runStoreChecks(): runs the store cases on a store that may be in use. Each case has its own prefix for names.
import { randomBytes } from "node:crypto";
import { messageOf } from "../core/errors.ts";
import type { Commit, Filter, Heading, Listed, Store } from "../core/store.ts";
import { readPages } from "../stores/front/copy-log.ts";
import { storeCases } from "./stores.ts";
import type { Checked } from "./gym-checks.ts";

/** Prefix of all session and environment names that the checks write. */
export const checkPrefix = "holdfast:check:";

/** Runs every case and deletes its data. Calls `onCase` after each case. */
export async function runStoreChecks(open: () => Promise<Store>, onCase?: () => void): Promise<Checked[]> {
  const first = await open();
  await first.close();
  const run = randomBytes(6).toString("base64url");
  const results: Checked[] = [];
  const why = "Every store must pass this check; see docs/stores.md and docs/http-store.md.";
  for (const [number, { name: what, needs, run: tryCase }] of storeCases.entries()) {
    if (needs !== undefined && !first[needs]) {
      results.push({ what, result: "skipped", message: `the store does not declare that it is ${needs}`, why });
      continue;
    }
    const written = new Set<string>();
    const prefix = `${checkPrefix}${run}:${number}:`;
    try {
      await tryCase({ open: async () => corner(await open(), prefix, written) });
      results.push({ what, result: "pass", why });
    } catch (thrown) {
      results.push({ what, result: "fail", message: messageOf(thrown), why });
    }
    await forget(open, written);
    onCase?.();
  }
  results.push(await checkSessions(open));
  return results;
}

/** Maximum number of damaged sessions to name. */
const mostNamed = 20;

/** Reads every log in the store, to find damaged logs. */
async function checkSessions(open: () => Promise<Store>): Promise<Checked> {
  const what = "every existing session can be read";
  const why = "Calls to a damaged session fail with store_corrupt. Restore the session, or delete it.";
  const damaged: string[] = [];
  const store = await open();
  try {
    for await (const { session } of store.list()) {
      await readLog(store, session).catch((thrown: unknown) => damaged.push(`${session}: ${messageOf(thrown)}`));
    }
  } finally {
    await store.close();
  }
  if (damaged.length === 0) return { what, result: "pass", why };
  const named = damaged.slice(0, mostNamed).join("; ");
  return { what, result: "fail", message: `${damaged.length} sessions cannot be read: ${named}`, why };
}

async function readLog(store: Store, session: string): Promise<void> {
  await store.load(session);
  for await (const _ of readPages(store, session));
}

async function forget(open: () => Promise<Store>, sessions: Set<string>): Promise<void> {
  const store = await open();
  try {
    for (const session of sessions) await store.delete(session);
  } finally {
    await store.close();
  }
}

/** Restricts a store to names with a prefix, as if it contained nothing else. */
function corner(store: Store, prefix: string, written: Set<string>): Store {
  const inside = (name: string): string => prefix + name;
  const outside = (name: string): string => name.slice(prefix.length);
  const heading = ({ environment, parent, ...rest }: Heading): Heading => ({
    ...rest,
    environment: inside(environment),
    ...(parent && { parent: { ...parent, session: inside(parent.session) } }),
  });
  const commit = (given: Commit): Commit => {
    const session = inside(given.session);
    written.add(session);
    return { ...given, session, ...(given.heading && { heading: heading(given.heading) }) };
  };
  const filter = ({ environment, after, ...rest }: Filter): Filter => ({
    ...rest,
    ...(environment !== undefined && { environment: inside(environment) }),
    ...(after !== undefined && { after: inside(after) }),
  });
  const listed = ({ session, environment, parent, ...rest }: Listed): Listed => ({
    ...rest,
    session: outside(session),
    environment: outside(environment),
    ...(parent && { parent: { ...parent, session: outside(parent.session) } }),
  });
  async function* own(rows: AsyncIterable<Listed>): AsyncGenerator<Listed> {
    for await (const row of rows) if (row.session.startsWith(prefix)) yield listed(row);
  }
  return {
    persistent: store.persistent,
    append: (first, ...together) => store.append(commit(first), ...together.map(commit)),
    read: (session, ...range) => store.read(inside(session), ...range),
    load: (session, ...asked) => store.load(inside(session), ...asked),
    find: (session, key) => store.find(inside(session), key),
    list: (given = {}) => own(store.list(filter(given))),
    count: (environment) => store.count(inside(environment)),
    delete: (session, end) => store.delete(inside(session), end),
    close: () => store.close(),
  };
}
