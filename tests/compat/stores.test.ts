// What version 0.1 wrote into Redis, Postgres, S3 and tiers, as it lies there: this version reads it and continues with it.
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { memoryStore, type Store } from "holdfast";
import { postgresStore } from "holdfast/stores/postgres";
import { redisStore } from "holdfast/stores/redis";
import { s3Store } from "holdfast/stores/s3";
import { sqliteStore } from "holdfast/stores/sqlite";
import { tieredStore } from "holdfast/stores/tiered";
import { Redis } from "ioredis";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { dropSchema } from "../../tools/servers/postgres.mjs";
import { removePrefix } from "../../tools/servers/redis.mjs";
import { startS3 } from "../../tools/servers/s3.mjs";
import { shared } from "../shared.ts";
import { expected, fixture, recordedIn, type Recorded } from "./fixtures.ts";
import { fill, readJournal } from "./journal.ts";
import { continuedIn } from "./mended.ts";
import { engines } from "./open.ts";
import {
  continueConversation,
  continueEpisode,
  episodesIn,
  listEpisodes,
  placeOn,
  readConversation,
  readEpisode,
  repeatEpisode,
  type Place,
} from "./probe.ts";

const newName = (): string => `t${randomUUID().replaceAll("-", "")}`;
const json = <T>(name: string): T => JSON.parse(readFileSync(fixture("stores", name), "utf8")) as T;

function closedAfterwards(store: Store): Store {
  onTestFinished(() => store.close());
  return store;
}

type Dump = Record<string, { type: string; value: unknown }>;

/** Puts the keys of a dump into the server that the tests share, under a prefix of their own. */
async function openRedis(dump: Dump): Promise<Store> {
  const [url, prefix] = [await shared("redis"), newName()];
  onTestFinished(() => removePrefix([Number(new URL(url).port)], prefix));
  const client = new Redis(url);
  for (const [name, { type, value }] of Object.entries(dump)) {
    const key = `${prefix}${name}`;
    const texts = value as string[];
    if (type === "string") await client.set(key, Buffer.from(value as string, "base64"));
    else if (type === "hash") await client.hset(key, value as Record<string, string>);
    else if (type === "list") await client.rpush(key, ...texts);
    else if (type === "set") await client.sadd(key, ...texts);
    else await client.zadd(key, ...texts.toReversed());
  }
  client.disconnect();
  return closedAfterwards(redisStore({ url: `${url}?prefix=${prefix}` }));
}

async function openPostgres(): Promise<Store> {
  const [url, schema] = [await shared("postgres"), newName()];
  onTestFinished(() => dropSchema(url, schema));
  const client = new pg.Client(url);
  await client.connect();
  await client.query(readFileSync(fixture("stores/postgres.sql"), "utf8").replaceAll("schema_of_fixture", schema));
  await client.end();
  return closedAfterwards(postgresStore({ url: `${url}?schema=${schema}&connections=2` }));
}

async function openS3(): Promise<Store> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-compat-"));
  for (const [name, body] of Object.entries(json<Record<string, string>>("s3.json"))) {
    writeFileSync(join(folder, Buffer.from(name).toString("base64url")), body);
  }
  const credentials = { accessKeyId: "key", secretAccessKey: "secret" };
  const server = await startS3({ bucket: "fixtures", folder, ...credentials });
  onTestFinished(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  return closedAfterwards(s3Store({ url: `s3://fixtures/here?endpoint=${server.endpoint}`, credentials }));
}

function newSqlite(): Store {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-compat-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return sqliteStore({ file: join(folder, "tier.db") });
}

const tiers = readJournal(fixture("stores/tiered.jsonl"));

/** Both tiers as they were after so many lines; by default after all. */
async function openTiered(cut = tiers.length, open = newSqlite): Promise<Store> {
  const [hot, cold] = [open(), open()];
  for (const line of tiers.slice(0, cut)) await fill(line.store === "hot" ? hot : cold, [line]);
  return closedAfterwards(tieredStore({ hot, cold, idle: 1e12 }));
}

const written = recordedIn(["ledger-killed", "ledger-long", "crew", "office-killed", "desk-killed"]);
const inTiers = recordedIn(["ledger-killed", "office-killed", "crew-killed", "desk-killed"]);

const kinds: { name: string; open(): Promise<Store>; sessions: Recorded[] }[] = [
  { name: "Redis", open: () => openRedis(json<Dump>("redis.json")), sessions: written },
  { name: "Postgres", open: openPostgres, sessions: written },
  { name: "S3", open: openS3, sessions: written },
  // One session was deleted.
  { name: "tiers", open: () => openTiered(), sessions: inTiers.filter(({ session }) => session !== "killed-began") },
];

describe.each(kinds)("what version 0.1 wrote into $name", ({ open, sessions }) => {
  const place = async (): Promise<Place> => placeOn(engines, await open());
  const episodes = sessions.filter(({ app }) => app === undefined);

  test("lists and reads the same", async () => {
    const here = await place();
    const rows = expected<{ ledger: { session: string }[] }>("list").ledger;
    const inOrder = episodes.map(({ session }) => rows.find((row) => row.session === session));
    expect(await listEpisodes(here)).toEqual(inOrder);
    const read = expected<Record<string, object>>("read");
    for (const { session, app } of sessions) {
      const now = await (app === undefined ? readEpisode(here, session) : readConversation(here, app, session));
      expect(now).toEqual(read[session]);
    }
  });

  test("ONCE: answers recorded calls from the record", async () => {
    const here = await place();
    const repeated = expected<Record<string, object>>("repeated");
    for (const { session } of episodes) expect(await repeatEpisode(here, session)).toEqual(repeated[session]);
  });

  const continues = async ({ session, app }: Recorded): Promise<void> => {
    const here = await place();
    const results = await (app === undefined
      ? continueEpisode(here, session)
      : continueConversation(here, app, session));
    expect(results).toEqual(continuedIn(session, expected("continued")[session]));
  };

  const isFirst = ({ session }: Recorded): boolean => ["killed-claimed", "killed-effect"].includes(session);
  const title = "continues $session as version 0.1 would";
  test.each(sessions.filter(isFirst))(title, continues);
  test.each(sessions.filter((each) => !isFirst(each)))(title, { tags: ["full"] }, continues);
});

test("ATOMIC: a commit to several logs that version 0.1 had decided in Redis is in all of them, another one in none", async () => {
  const { prepared, committed } = json<Record<"prepared" | "committed", Dump>>("redis-intents.json");
  const [session, user] = ["killed-effect", "holdfast:user:office-killed:killed-effect"];
  const lengths = async (store: Store): Promise<unknown[]> => [
    (await store.read(session, 0))?.length,
    (await store.read(user, 0))?.length,
  ];
  expect(await lengths(await openRedis(committed))).toEqual([3, 2]);
  const store = await openRedis(prepared);
  expect(await lengths(store)).toEqual([2, 1]);
  // Its writer is gone: the next one gives it up and gets through.
  const here = placeOn(engines, store);
  await continueConversation(here, "office-killed", session);
  await episodesIn(here).open();
});

test("DURABLE: tiers of version 0.1 that were cut short at any step hold every session", async () => {
  for (const [cut, versions] of Object.entries(json<Record<string, object>>("tiered-cuts.json"))) {
    const store = await openTiered(Number(cut), memoryStore);
    const found: Record<string, number> = {};
    for await (const { session, version } of store.list()) {
      expect(await store.read(session, 0)).toHaveLength(version);
      found[session] = version;
    }
    expect({ cut, ...found }).toEqual({ cut, ...versions });
  }
});
