// The size of a session in each store: memory of Redis, disk of Postgres and SQLite, bytes and objects of S3.
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sqliteStore } from "holdfast/stores/sqlite";
import { ask } from "../tools/servers/postgres.mjs";
import { closedLoop, commitTo, nextEntry, openedLogs, opening } from "./commits.mjs";
import { withServers } from "./store-servers.mjs";

/** Calls beyond the two events that a session starts with. */
const calls = 8;

/** @param {import("./table.mjs").Options} options @returns {Promise<import("./table.mjs").Result>} */
export function run({ quick, progress }) {
  const count = quick ? 500 : 10_000;
  // Each commit is one request, and the sizes are the same for all sessions.
  const few = quick ? 50 : 1000;
  return withServers(async ({ redis, postgres, s3 }) => {
    const fill = async (/** @type {import("holdfast").Store} */ store, /** @type {number} */ sessions) => {
      for (let done = 0; done < sessions; done += 500) {
        const logs = await openedLogs(store, Math.min(500, sessions - done));
        await closedLoop(logs, calls, (log) => commitTo(store, log)).run();
      }
    };

    progress(`${count} sessions on Redis`);
    await redis.store.count("counter");
    const before = await usedMemory(redis);
    await fill(redis.store, count);
    const redisBytes = ((await usedMemory(redis)) - before) / count;

    progress(`${count} sessions on Postgres`);
    await postgres.store.count("counter");
    const emptyTables = await tableBytes(postgres.url);
    await fill(postgres.store, count);
    const postgresBytes = ((await tableBytes(postgres.url)) - emptyTables) / count;

    progress(`${count} sessions on SQLite`);
    const sqliteBytes = (await fileBytes((store) => fill(store, count))) / count;

    progress(`${few} sessions on S3`);
    await fill(s3.store, few);
    const objects = await (await fetch(String(s3.sizes))).json();

    const data = ownBytes();
    const row = (/** @type {string} */ what, /** @type {number} */ value) => ({
      what,
      value,
      unit: "bytes",
      ratio: value / data,
      to: "its events",
    });
    return {
      rows: [
        { what: "the events of a session, with their keys", value: data, unit: "bytes" },
        row("Redis: memory", redisBytes),
        row("Postgres: tables and indexes", postgresBytes),
        row("SQLite: the file", sqliteBytes),
        row("S3: what is stored", objects.bytes / few),
        { what: "S3: objects", value: objects.count / few, unit: "objects" },
      ],
      notes: [
        `${count.toLocaleString("en")} sessions of ${calls + 2} events (S3: ${few.toLocaleString("en")}): an opening, a seed, and ${calls} calls with ids.`,
        `What \`used_memory\` of Redis grew by, what Postgres counts as relations of the schema, and what the S3 server holds.`,
      ],
    };
  });
}

/** @param {import("./store-servers.mjs").Served} redis */
async function usedMemory({ ask: command }) {
  return Number(/used_memory:(\d+)/.exec((await command?.("info", "memory")) ?? "")?.[1]);
}

/** Tables, their indexes and their TOAST data. @param {string} url */
async function tableBytes(url) {
  await ask(url, "VACUUM");
  const [row] = await ask(
    url,
    `SELECT sum(pg_total_relation_size(oid))::float8 AS bytes FROM pg_class
      WHERE relnamespace = 'holdfast'::regnamespace AND relkind = 'r'`,
  );
  return Number(row?.["bytes"]);
}

/** @param {(store: import("holdfast").Store) => Promise<void>} fill */
async function fileBytes(fill) {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  try {
    const file = join(folder, "sizing.db");
    const store = await sqliteStore({ file });
    await fill(store);
    await store.close();
    return statSync(file).size;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The size of the texts of a session's events and keys alone. */
function ownBytes() {
  const log = { id: "", version: 2, at: Date.now() };
  const entries = [...opening(log).entries, ...Array.from({ length: calls }, () => nextEntry(log))];
  return entries.reduce((sum, { body, ...rest }) => sum + body.length + ("key" in rest ? rest.key.length : 0), 0);
}
