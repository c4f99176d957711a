// Reads from a store for the tiered tests: the bodies of a log, and the listed sessions.
import type { Store } from "../../src/core/store.ts";

export async function bodiesOf(store: Store, session: string): Promise<unknown[] | undefined> {
  return (await store.read(session, 0))?.map(({ body }) => JSON.parse(body) as unknown);
}

export async function idsOf(store: Store): Promise<string[]> {
  const ids: string[] = [];
  for await (const { session } of store.list()) ids.push(session);
  return ids;
}
