// The S3 store: logs as objects in a bucket, shared by any number of processes, without our own server.
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import { refuseUnknown } from "../core/suggest.ts";
import { createStore, type Call, type Driver, type Entry, type Page, type Unit } from "./front.ts";
import { createChunks, Gone } from "./s3/chunks.ts";
import { backgroundCall, createClient, type Client } from "./s3/client.ts";
import { createCommits, type Abilities } from "./s3/commit.ts";
import { corrupt, endOf, randomMark, type Head, type Kept } from "./s3/head.ts";
import { createHeads } from "./s3/head-cache.ts";
import { createLister } from "./s3/listing.ts";
import { locationOf, type S3Credentials } from "./s3/location.ts";
import { placeOf } from "./s3/opening-index.ts";
import { createTwoPhaseCommit } from "./s3/two-phase-commit.ts";

export type { S3Credentials };

export interface S3StoreOptions {
  /**
   * `s3://bucket/prefix`, with options in the query: `endpoint=https://…` of a service other than AWS, `region=…`, and
   * `style=path` or `style=host`, the place of the bucket's name (default with an endpoint: "path"). The defaults are
   * AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL and AWS_REGION. The bucket must exist.
   */
  url: string;
  /** Default: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. */
  credentials?: S3Credentials;
}

/**
 * Opens a store in an S3 bucket, or in a compatible service. The service must support conditional writes, which are
 * tested before the first write. Each session has one main object, its head. A commit replaces the head, unless another
 * writer has replaced it before. The older part of the log moves into objects that never change. A commit to a cached
 * session is one request.
 *
 * @example
 * const store = s3Store({ url: "s3://bucket/sessions?region=eu-central-1" });
 */
export function s3Store(options: S3StoreOptions): Store {
  const { url, credentials } = options;
  refuseUnknown("s3Store", options, { url, credentials }, invalidOption);
  return createStore(s3Driver(createClient(locationOf(url, credentials, process.env))));
}

function s3Driver(client: Client): Driver {
  const chunks = createChunks(client);
  const heads = createHeads(client, chunks);
  const tasks = new Set<Promise<unknown>>();
  let abilities: Promise<Abilities> | undefined;

  /** Starts background work. Its failures are ignored, because nothing depends on it. */
  function background(task: () => Promise<unknown>): void {
    const run: Promise<unknown> = task()
      .catch(() => undefined)
      .finally(() => tasks.delete(run));
    tasks.add(run);
  }

  /** Tests the service before the first write, because a service that ignores conditions would lose logs silently. */
  function ready(): Promise<Abilities> {
    abilities ??= probe(client).catch((thrown: unknown) => {
      abilities = undefined;
      throw thrown;
    });
    return abilities;
  }

  const parts = { client, heads, chunks, background, ready };
  const commits = createCommits(parts);
  const several = createTwoPhaseCommit(parts, commits);
  const { list, count } = createLister(parts);

  /** Reads a session. Reads again if the session was deleted while its objects were fetched. */
  async function reading<T>(session: string, call: Call, read: (head: Head) => Promise<T>): Promise<T | undefined> {
    let missed: string | undefined;
    for (;;) {
      const { head, etag } = await heads.look(session, call);
      if (head.version === 0) return undefined;
      try {
        return await read(head);
      } catch (thrown) {
        if (!(thrown instanceof Gone)) throw thrown;
        if (missed === etag) throw corrupt(`session ${JSON.stringify(session)}: ${thrown.message}, and it`, thrown);
        missed = etag;
      }
    }
  }

  return {
    name: `the S3 store ${client.name}`,
    persistent: true,
    together: true,
    text: "any",
    idle: true,
    groups: { of: "session", commits: 256 },
    overtime: client.hasOvertime,

    async append(units, call) {
      const [first] = units as [Unit];
      if (first.length > 1) return [await several.append(first, call)];
      return commits.commit(first[0].session, units.flat(), call);
    },

    read: (session, { after, upTo, limit, bytes, snapshot: fromSnapshot }, call) =>
      reading(session, call, async (head) => {
        const newest = fromSnapshot ? await chunks.snapshotUpTo(head, Math.min(head.version, upTo), call) : undefined;
        const snapshot = newest && newest.version > after ? newest : undefined;
        const start = snapshot?.version ?? after;
        const last = Math.min(head.version, upTo, start + limit);
        const entries = last <= start ? [] : await chunks.entries(head, start + 1, last, call, bytes);
        const page: Page = { end: endOf(head), place: placeOf(head), entries: numbered(entries, start) };
        if (snapshot) page.snapshot = snapshot;
        return page;
      }),

    find: (session, key, call) =>
      reading(session, call, async (head) => {
        const version = (await heads.keysOf(session, head, call)).get(key);
        if (version === undefined || version > head.version) return undefined;
        return numbered(await chunks.entries(head, version, version, call), version - 1)[0];
      }),

    list,
    count,
    delete: commits.remove,

    async close() {
      several.settleAll();
      while (tasks.size > 0) await Promise.all(tasks);
      await client.close();
    },
  };
}

/** Tests which conditions the service supports. */
async function probe(client: Client): Promise<Abilities> {
  const key = `probes/${randomMark()}`;
  const call = backgroundCall();
  await client.putIf(key, "probe", { absent: true }, call);
  const [again, over] = await Promise.all([
    client.putIf(key, "again", { absent: true }, call),
    client.putIf(key, "over", { etag: '"00000000000000000000000000000000"' }, call),
  ]);
  const removesIf = !(await client.remove(key, call, '"00000000000000000000000000000000"'));
  if (removesIf) await client.remove(key, call);
  if (typeof again === "object" || typeof over === "object") {
    throw new HoldfastError(
      "store_failed",
      `the S3 service for ${client.name} ignores If-None-Match or If-Match on PUT, so commits could be lost; use a service that supports conditional writes`,
    );
  }
  return { removesIf };
}

function numbered(entries: Kept[], after: number): Entry[] {
  return entries.map(({ body, at, key }, index) => {
    const version = after + index + 1;
    return key === undefined ? { version, body, at } : { version, body, at, key };
  });
}
