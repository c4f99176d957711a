// Writes some of the fixtures' journals into stores of an earlier version, and keeps what those made of them, as text:
// node tests/compat/generate-stores.mjs ITS_DIST OUT. Run after generate.mjs, with the same arguments.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import Redis from "ioredis";
import { createJiti } from "jiti";
import { startPostgres } from "../../tools/servers/postgres.mjs";
import { startRedis } from "../../tools/servers/redis.mjs";
import { startS3 } from "../../tools/servers/s3.mjs";
import { recording } from "./scenarios.mjs";

const [dist, out] = process.argv.slice(2).map((path) => resolve(path));
if (dist === undefined || out === undefined) throw new Error("node tests/compat/generate-stores.mjs ITS_DIST OUT");
const old = async (name) => import(`${dist}/stores/${name}.js`);
const { readJournal, fill } = await createJiti(import.meta.url).import("./journal.ts");

/** Snapshots, a log of more than 32 entries, shared state, and calls and turns that were killed. */
const names = ["ledger-killed", "ledger-long", "crew", "office-killed", "desk-killed"];
const linesOf = (name) => readJournal(join(out, "journals", `${name}.jsonl`));
const lines = names.flatMap(linesOf);
const folder = join(out, "stores");
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);

/** One line for each entry, so that it can be read. */
function write(name, entries) {
  const rows = Object.entries(entries).map(([key, value]) => ` ${JSON.stringify(key)}: ${JSON.stringify(value)}`);
  writeFileSync(join(folder, name), `{\n${rows.join(",\n")}\n}\n`);
}

async function dumpRedis(url, prefix) {
  const client = new Redis(url);
  const keys = (await client.keys(`${prefix}:*`)).sort();
  const readers = {
    string: (key) => client.getBuffer(key).then((value) => value.toString("base64")),
    hash: (key) => client.hgetall(key),
    list: (key) => client.lrange(key, 0, -1),
    set: (key) => client.smembers(key),
    zset: (key) => client.zrange(key, 0, -1, "WITHSCORES"),
  };
  const dump = {};
  for (const key of keys) {
    const type = await client.type(key);
    dump[key.slice(prefix.length)] = { type, value: await readers[type](key) };
  }
  client.disconnect();
  return dump;
}

async function makeRedis() {
  const server = await startRedis();
  const { redisStore } = await old("redis");
  const store = redisStore({ url: `${server.url}?prefix=whole` });
  await fill(store, lines);
  await store.close();
  write("redis.json", await dumpRedis(server.url, "whole"));
  write("redis-intents.json", {
    prepared: await killedRedis(server, "commit"),
    committed: await killedRedis(server, "apply"),
  });
  await server.stop();
}

/** A store with the buckets of a Cluster, whose writer is killed before it sends a script for a commit to several logs. */
async function killedRedis(server, before) {
  await server.command("hset", `${before}:meta`, "buckets", 256);
  const [{ addressOf }, { connectionTo }, { storeOn }] = await Promise.all(
    ["redis/address", "redis/connection", "redis/store"].map(old),
  );
  const connection = connectionTo(addressOf({ url: server.url, prefix: before }));
  let isOn = false;
  const call = async (script, ...rest) => {
    if (isOn && script === before) throw new Error("killed");
    return connection.call(script, ...rest);
  };
  const store = storeOn({ ...connection, call });
  const journal = linesOf("office-killed");
  const together = journal.findIndex(({ commits }) => commits.length > 1);
  await fill(store, journal.slice(0, together));
  isOn = true;
  await store.append(...journal[together].commits).catch(() => undefined);
  await store.close();
  return dumpRedis(server.url, before);
}

async function makePostgres() {
  const server = await startPostgres({ settings: { fsync: "off" } });
  const { postgresStore } = await old("postgres");
  const schema = "schema_of_fixture";
  const store = postgresStore({ url: `${server.url}?schema=${schema}` });
  await fill(store, lines);
  await store.close();
  const bin = execFileSync("sh", ["-c", "ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1"], { encoding: "utf8" });
  const flags = ["--schema", schema, "--inserts", "--no-owner", "--no-privileges", "--no-comments"];
  const dump = execFileSync(join(bin.trim(), "pg_dump"), [...flags, server.url], { encoding: "utf8" });
  // Settings, and commands for psql, that other versions of the server or the client do not know.
  const kept = dump
    .split("\n")
    .filter((line) => !/^(SET \w+ = .*;|\\.*|--.*|SELECT pg_catalog\.set_config.*)?$/.test(line));
  writeFileSync(join(folder, "postgres.sql"), `${kept.join("\n")}\n`);
  await server.stop();
}

async function makeS3() {
  const credentials = { accessKeyId: "key", secretAccessKey: "secret" };
  const server = await startS3({ bucket: "fixtures", ...credentials });
  const { s3Store } = await old("s3");
  const store = s3Store({ url: `s3://fixtures/here?endpoint=${server.endpoint}`, credentials });
  await fill(store, lines);
  await store.close();
  const objects = [...server.objects].sort(([a], [b]) => (a < b ? -1 : 1));
  write("s3.json", Object.fromEntries(objects.map(([name, { body }]) => [name, body.toString()])));
  await server.stop();
}

/** Sessions that were moved out, some of them moved back, one deleted, and one from before there were tiers. */
async function makeTiered() {
  const [{ memoryStore }, { tieredStore }] = [await old("memory"), await old("tiered")];
  const file = join(folder, "tiered.jsonl");
  const open = (hot, cold) => tieredStore({ hot, cold, idle: 1 });
  const [hot, cold] = [
    recording(memoryStore(), file, { part: "hot" }),
    recording(memoryStore(), file, { part: "cold" }),
  ];
  await fill(hot, linesOf("ledger-killed"));
  const store = open(hot, cold);
  const crew = linesOf("crew-killed");
  await fill(store, [...linesOf("office-killed"), ...crew.slice(0, -4)]);
  await new Promise((resolve) => setTimeout(resolve, 20));
  await store.sweep();
  await fill(store, [...crew.slice(-4), ...linesOf("desk-killed")]);
  await store.delete("killed-began");
  await store.close();
  // The sessions of every cut, as the old store finds them there.
  const journal = readJournal(file);
  const cuts = {};
  for (let cut = 1; cut <= journal.length; cut++) {
    const [hot, cold] = [memoryStore(), memoryStore()];
    for (const { store: part, ...line } of journal.slice(0, cut)) await fill(part === "hot" ? hot : cold, [line]);
    const store = tieredStore({ hot, cold, idle: 1e12 });
    cuts[cut] = {};
    for await (const { session, version } of store.list()) cuts[cut][session] = version;
    await store.close();
  }
  write("tiered-cuts.json", cuts);
}

await makeRedis();
await makePostgres();
await makeS3();
await makeTiered();
const files = ["redis.json", "redis-intents.json", "postgres.sql", "s3.json", "tiered.jsonl"];
for (const file of files) {
  if (readFileSync(join(folder, file), "utf8").includes(dist))
    throw new Error(`${file} names a folder of this machine`);
}
