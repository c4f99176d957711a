// The S3 store: logs as objects of a bucket, shared by any number of processes anywhere, with no server of our own.
import { HoldfastError } from "../core/errors.ts";
import type { Entry, Store } from "../core/store.ts";
import { assertDifferentSessions } from "../core/store.ts";
import type { Client, Deadline } from "./s3/client.ts";
import { createClient, deadlineFor } from "./s3/client.ts";
import type { Head, Kept } from "./s3/head.ts";
import { corrupt, randomMark } from "./s3/head.ts";
import { createHeads } from "./s3/heads.ts";
import { createLadder, Gone } from "./s3/ladder.ts";
import { createListing } from "./s3/listing.ts";
import type { S3Credentials } from "./s3/location.ts";
import { locationOf } from "./s3/location.ts";
import type { Abilities } from "./s3/writing.ts";
import { createWriter } from "./s3/writing.ts";

export interface S3StoreOptions {
  /**
   * `s3://bucket/prefix`, and after a question mark what is not as usual: `endpoint=https://…` of a service other than
   * AWS, `region=…`, `style=path` or `style=host` (where the bucket's name goes; "path" with an endpoint). Without them:
   * AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL and AWS_REGION. The bucket must be there.
   */
  url: string;
  /** Default: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. */
  credentials?: S3Credentials;
}

/**
 * A store in a bucket of S3, or of a service like it that honours conditional writes, which is tried before the first
 * write. A session is one object, its head, that a commit replaces if it is still the one that the writer saw; the older
 * part of the log moves into objects that never change. A commit to a session that this process knows is one request.
 *
 * @example
 * const store = s3Store({ url: "s3://bucket/sessions?region=eu-central-1" });
 */
export function s3Store({ url, credentials }: S3StoreOptions): Store {
  const client = createClient(locationOf(url, credentials, process.env));
  const ladder = createLadder(client);
  const heads = createHeads(client, ladder);
  const tasks = new Set<Promise<unknown>>();
  let closing: Promise<void> | undefined;
  let abilities: Promise<Abilities> | undefined;

  function assertOpen(): void {
    if (closing !== undefined) throw new HoldfastError("store_closed", `the S3 store ${client.name} was closed`);
  }

  /** What fails in here is left as it is: nothing depends on it. */
  function background(task: () => Promise<unknown>): void {
    const run: Promise<unknown> = task()
      .catch(() => undefined)
      .finally(() => tasks.delete(run));
    tasks.add(run);
  }

  /** Before the first write: on a service that ignores conditions, logs would be lost without a word. */
  function ready(): Promise<Abilities> {
    abilities ??= probe(client).catch((thrown: unknown) => {
      abilities = undefined;
      throw thrown;
    });
    return abilities;
  }

  const writer = createWriter({ client, heads, ladder, background, ready });
  const listing = createListing({ client, heads, assertOpen, background });

  /** Reads, and reads again if the session was deleted while its objects were fetched. */
  async function reading<T>(
    session: string,
    read: (head: Head, deadline: Deadline) => Promise<T>,
  ): Promise<T | undefined> {
    assertOpen();
    const deadline = deadlineFor();
    let missed: string | undefined;
    for (;;) {
      const { head, etag } = await heads.look(session, deadline);
      if (head.version === 0) return undefined;
      try {
        return await read(head, deadline);
      } catch (thrown) {
        if (!(thrown instanceof Gone)) throw thrown;
        if (missed === etag) throw corrupt(`session ${JSON.stringify(session)}: ${thrown.message}, and it`, thrown);
        missed = etag;
      }
    }
  }

  return {
    persistent: true,

    async append(commit, ...together) {
      assertOpen();
      if (together.length > 0) assertDifferentSessions([commit, ...together]);
      return writer.append([commit, ...together]);
    },

    read: (session, after, limit = Infinity) =>
      reading(session, async (head, deadline) => {
        const last = Math.min(head.version, after + limit);
        return last <= after ? [] : numbered(await ladder.entries(head, after + 1, last, deadline), after);
      }),

    load: (session, version = Infinity) =>
      reading(session, async (head, deadline) => {
        const last = Math.min(head.version, version);
        const snapshot = await ladder.snapshotUpTo(head, last, deadline);
        const start = snapshot?.version ?? 0;
        const entries = last <= start ? [] : numbered(await ladder.entries(head, start + 1, last, deadline), start);
        return snapshot ? { snapshot, entries } : { entries };
      }),

    find: (session, key) =>
      reading(session, async (head, deadline) => {
        const version = (await heads.keysOf(session, head, deadline)).get(key);
        if (version === undefined || version > head.version) return undefined;
        return numbered(await ladder.entries(head, version, version, deadline), version - 1)[0];
      }),

    list: (filter = {}) => listing.list({ ...filter }),

    async count(environment) {
      assertOpen();
      return listing.count(environment);
    },

    async delete(session, end) {
      assertOpen();
      return writer.remove(session, end && { ...end });
    },

    close() {
      closing ??= (async () => {
        await writer.idle();
        while (tasks.size > 0) await Promise.all(tasks);
        await client.close();
      })();
      return closing;
    },
  };
}

/** Finds out what the service does with conditions. */
async function probe(client: Client): Promise<Abilities> {
  const key = `probes/${randomMark()}`;
  const deadline = deadlineFor();
  await client.putIf(key, "probe", { absent: true }, deadline);
  const [again, over] = await Promise.all([
    client.putIf(key, "again", { absent: true }, deadline),
    client.putIf(key, "over", { etag: '"00000000000000000000000000000000"' }, deadline),
  ]);
  const removesIf = !(await client.remove(key, deadline, '"00000000000000000000000000000000"'));
  if (removesIf) await client.remove(key, deadline);
  if (typeof again === "object" || typeof over === "object") {
    throw new HoldfastError(
      "store_failed",
      `the service of the S3 store ${client.name} ignores If-None-Match or If-Match on puts, without which logs would be lost; use one that has conditional writes`,
    );
  }
  return { removesIf };
}

function numbered(entries: Kept[], after: number): Entry[] {
  return entries.map(({ body }, at) => ({ version: after + at + 1, body }));
}
