// openCollections(): opens the collections given to a command as files, and the stores with their sessions.
import { resolve } from "node:path";
import { messageOf } from "../core/errors.ts";
import type { Event } from "../core/event.ts";
import type { CollectionDetails } from "./collection-view.ts";
import { decode } from "../core/session.ts";
import type { Store } from "../core/store.ts";
import { joinedStores } from "./joined-stores.ts";
import { isOfEnvironment } from "./episode-log.ts";
import { outputPaths } from "./output.ts";
import { locateStore, untrustedText } from "./store-location.ts";
import { assertRollouts, numberedRollouts, collectionName } from "./collection-index.ts";
import { readRecord, type CollectionRecord } from "./collection-record.ts";
import { openStore } from "../stores/open.ts";

export interface ViewedCollection {
  details: CollectionDetails;
  record: CollectionRecord | undefined;
}

/** Opens collections. The store is undefined if there are no sessions. The caller closes it. */
export async function openCollections(
  given: string[],
  url: string | undefined,
  note: (text: string) => void,
): Promise<{ collections: ViewedCollection[]; store: Store | undefined }> {
  const files = withoutParts(given);
  for (const file of files) await assertRollouts(file);
  const store = await openStores(files, url, note);
  try {
    const collections: ViewedCollection[] = [];
    for (const [at, file] of files.entries()) collections.push(await viewCollection(file, String(at), store, note));
    return { collections, store };
  } catch (thrown) {
    await store?.close();
    throw thrown;
  }
}

/** Drops failures files and tasks files, which patterns such as `runs/*.jsonl` include. */
function withoutParts(files: string[]): string[] {
  const parts = new Set(files.map(outputPaths).flatMap(({ failures, inputs }) => [resolve(failures), resolve(inputs)]));
  return files.filter((file) => !parts.has(resolve(file)));
}

async function openStores(
  files: string[],
  url: string | undefined,
  note: (text: string) => void,
): Promise<Store | undefined> {
  if (url !== undefined) return openStore(url, { isThere: true });
  const trusted: string[] = [];
  for (const file of files) {
    const located = locateStore(file);
    if (located?.isTrusted) trusted.push(absolute(located.url));
    else if (located) note(`sessions are not shown: ${untrustedText(file, located.url)}`);
  }
  const opened: Store[] = [];
  try {
    for (const each of new Set(trusted)) opened.push(await openStore(each, { isThere: true }));
  } catch (thrown) {
    for (const store of opened) await store.close();
    throw thrown;
  }
  const [first, ...rest] = opened;
  return first && joinedStores([first, ...rest]);
}

/** Makes the path in a store URL absolute, because two files may name the same store by different paths. */
const absolute = (url: string): string => url.replace(/^sqlite:(.+)$/, (_, file: string) => `sqlite:${resolve(file)}`);

async function viewCollection(
  file: string,
  run: string,
  store: Store | undefined,
  note: (text: string) => void,
): Promise<ViewedCollection> {
  const record = findRecord(file, note);
  const settings = record?.settings ?? {};
  const recorded = nameIn(settings["environment"]);
  const { environment = recorded, sessions } = await findSessions(file, store, recorded);
  return {
    details: {
      run,
      name: collectionName(file),
      file,
      environment: environment ?? null,
      model: typeof settings["model"] === "string" ? settings["model"] : null,
      settings,
      sessions,
    },
    record,
  };
}

function findRecord(file: string, note: (text: string) => void): CollectionRecord | undefined {
  try {
    return readRecord(outputPaths(file).run);
  } catch (thrown) {
    note(`the settings of ${file} are not shown: ${messageOf(thrown)}`);
    return undefined;
  }
}

/** Returns the environment's name. If the collection ran on a server, a URL was recorded instead of a name. */
const nameIn = (value: unknown): string | undefined =>
  typeof value === "string" && !/[:/]/.test(value) ? value : undefined;

/** Number of rows checked for a session in the store. */
const rowsAsked = 20;

async function findSessions(
  file: string,
  store: Store | undefined,
  recorded: string | undefined,
): Promise<{ environment?: string | undefined; sessions: boolean }> {
  if (!store) return { sessions: false };
  let asked = 0;
  for await (const { row } of numberedRollouts(file)) {
    const { session_id: session } = row;
    const [entry] = (typeof session === "string" && (await store.read(session, 0, 1))) || [];
    const first = entry && decode<Event>(entry.body, String(session));
    if (first?.type === "session.opened" && isOfEnvironment(first))
      return { environment: first.environment, sessions: true };
    if (++asked === rowsAsked) break;
  }
  // If there are no rows yet, assume that sessions will follow.
  return { sessions: asked === 0 && recorded !== undefined };
}
