// joinedStores(): presents several collections' stores as one store. No session is in two of them.
import type { Appended, Commit, Filter, Listed, Store } from "../core/store.ts";

/**
 * Joins stores. A fork is created in its parent's store, and any other new session in the first store. Sessions are
 * listed store by store, in the requested order within each store. Closing the joined store closes all stores.
 */
export function joinedStores(stores: readonly [Store, ...Store[]]): Store {
  const [first] = stores;
  if (stores.length === 1) return first;
  const known = new Map<string, Store>();
  const writing = new Set<Promise<Appended>>();

  async function findHolder(session: string): Promise<Store | undefined> {
    const found = known.get(session);
    if (found) return found;
    for (const store of stores) {
      if (!(await store.read(session, 0, 1))) continue;
      known.set(session, store);
      return store;
    }
    return undefined;
  }

  const at = async (session: string): Promise<Store> => (await findHolder(session)) ?? first;

  async function append(commit: Commit, ...together: Commit[]): Promise<Appended> {
    const { session, version, heading } = commit;
    const parent = version === 0 ? heading?.parent?.session : undefined;
    return ((await findHolder(session)) ?? (await at(parent ?? session))).append(commit, ...together);
  }

  async function* list(filter: Filter): AsyncGenerator<Listed> {
    const { after, ...rest } = filter;
    const holder = after === undefined ? undefined : await at(after);
    if (holder) yield* holder.list(filter);
    for (const store of stores.slice(holder ? stores.indexOf(holder) + 1 : 0)) yield* store.list(rest);
  }

  return {
    persistent: stores.every(({ persistent }) => persistent),
    append(...commits) {
      // The commits are copied, because the caller may change them while the store is looked up.
      const written = append(...structuredClone(commits));
      writing.add(written);
      written.finally(() => writing.delete(written)).catch(() => undefined);
      return written;
    },
    read: async (session, ...range) => (await at(session)).read(session, ...range),
    load: async (session, ...asked) => (await at(session)).load(session, ...asked),
    find: async (session, key) => (await at(session)).find(session, key),
    list: (filter) => list({ ...filter }),
    async count(environment) {
      const counts = await Promise.all(stores.map((store) => store.count(environment)));
      return counts.reduce((sum, count) => sum + count, 0);
    },
    async delete(session, end) {
      const holder = await at(session);
      known.delete(session);
      return holder.delete(session, end);
    },
    async close() {
      await Promise.allSettled(writing);
      await Promise.all(stores.map((store) => store.close()));
    },
  };
}
