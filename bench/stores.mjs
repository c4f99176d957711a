// How many commits per second each store takes from 1,000 busy sessions, and how long one takes, beside the bare client.
import pg from "pg";
import { barePostgres, makeTable } from "./bare-postgres.mjs";
import { bareRedis } from "./bare-redis.mjs";
import { closedLoop, commitTo, newLogs, openedLogs } from "./commits.mjs";
import { interleave } from "./measure.mjs";
import { withStore } from "./open-store.mjs";
import { metered } from "./processes.mjs";
import { withServers } from "./store-servers.mjs";
import { costRow, pairedRow, rateRow } from "./table.mjs";

const busy = 1000;
/** For the stores whose client has 64 connections: more would only wait for each other. */
const fewer = 100;

/** @typedef {import("holdfast").Store} Store */

/** @param {import("./table.mjs").Options} options @returns {Promise<import("./table.mjs").Result>} */
export function run({ quick, progress }) {
  const size = quick ? { each: 2, one: 30, rounds: 5 } : { each: 3, one: 100, rounds: 50 };
  progress("starting servers");
  return withServers((served) =>
    withStore("memory", (memory) =>
      withStore("SQLite process", (processStore) =>
        withStore("SQLite power", async (power) => {
          const bare = { redis: await bareRedis(served.redis.url), ...(await barePostgresPair(served.postgres.url)) };
          try {
            progress("opening sessions");
            return await measured({ served, memory, processStore, power, bare, size, progress });
          } finally {
            bare.redis.close();
            await Promise.all(bare.postgres.map((client) => client.close()));
          }
        }),
      ),
    ),
  );
}

/** Two connections. @param {string} url */
async function barePostgresPair(url) {
  await makeTable(url);
  return { postgres: [await barePostgres(url), await barePostgres(url)] };
}

/**
 * @param {{ served: Record<import("./store-servers.mjs").ServedName, import("./store-servers.mjs").Served>, memory: Store,
 *   processStore: Store, power: Store, bare: { redis: Awaited<ReturnType<typeof bareRedis>>, postgres: Awaited<ReturnType<typeof barePostgres>>[] },
 *   size: { each: number, one: number, rounds: number }, progress: (what: string) => void }} parts
 * @returns {Promise<import("./table.mjs").Result>}
 */
async function measured({ served, memory, processStore, power, bare, size, progress }) {
  const { each, one } = size;
  const busyOn = async (/** @type {Store} */ store, /** @type {number} */ count) =>
    closedLoop(await openedLogs(store, count), each, (log) => commitTo(store, log));
  const oneOn = async (/** @type {Store} */ store, /** @type {number} */ commits) =>
    closedLoop(await openedLogs(store, 1), commits, (log) => commitTo(store, log));
  const { redis, redisAlways, postgres, s3, http } = served;
  const batch = await batchSize(await busyOn(postgres.store, busy));
  const [connection] = bare.postgres;

  const many = {
    memory: metered(await busyOn(memory, busy)),
    process: metered(await busyOn(processStore, busy)),
    power: metered(await busyOn(power, busy)),
    redis: metered(await busyOn(redis.store, busy), redis.pids),
    redisAlways: metered(await busyOn(redisAlways.store, busy), redisAlways.pids),
    postgres: metered(await busyOn(postgres.store, busy), postgres.pids),
    s3: metered(await busyOn(s3.store, fewer), s3.pids),
    http: metered(await busyOn(http.store, fewer), http.pids),
    redisCalls: metered(closedLoop(newLogs(busy), each, bare.redis.commit), redis.pids),
    redisPipelines: metered(batches(newLogs(busy), each, busy / 2, [bare.redis.commitAll, bare.redis.commitAll])),
    postgresOne: metered(batches(newLogs(busy), each, batch, [connection.commit]), postgres.pids),
    postgresTwo: metered(
      batches(
        newLogs(busy),
        each,
        batch,
        bare.postgres.map(({ commit }) => commit),
      ),
      postgres.pids,
    ),
  };
  progress("measuring");
  const rates = await interleave(many, size);
  progress("measuring one session");
  const slow = Math.ceil(one / 4);
  const costs = await interleave(
    {
      memory: await oneOn(memory, 10 * one),
      process: await oneOn(processStore, one),
      power: await oneOn(power, slow),
      redisAlways: await oneOn(redisAlways.store, slow),
      postgres: await oneOn(postgres.store, slow),
      insert: batches(newLogs(1), slow, 1, [connection.commit]),
      s3: await oneOn(s3.store, slow),
      http: await oneOn(http.store, one),
    },
    size,
  );
  // By themselves and in many short rounds: they differ by microseconds, which is little beside what a busy machine adds.
  const trips = await interleave(
    {
      ping: closedLoop(newLogs(1), one, bare.redis.ping),
      smallest: closedLoop(newLogs(1), one, bare.redis.commit),
      script: closedLoop(await openedLogs(redis.store, 1), one, bare.redis.commitByOurs),
      store: await oneOn(redis.store, one),
    },
    { rounds: 5 * size.rounds },
  );

  const cpu = Object.entries({
    memory: "memory",
    process: "SQLite process",
    power: "SQLite power",
    redis: "Redis everysec",
    redisCalls: "Redis, bare calls",
    postgres: "Postgres",
    postgresTwo: "Postgres, bare inserts, two connections",
    s3: "S3",
    http: "HTTP",
  }).flatMap(([name, what]) => cpuRows(what, many[/** @type {keyof typeof many} */ (name)].used));
  const half = { atLeast: 0.5 };
  const ping = { to: "PING", reference: trips.ping };
  const toMemory = { to: "memory", reference: rates.memory };
  return {
    rows: [
      rateRow("Redis, bare: a script call of each session", rates.redisCalls),
      rateRow("Redis, bare: two pipelines of 500 in turns", rates.redisPipelines),
      rateRow("Redis everysec", rates.redis, { to: "bare script calls", reference: rates.redisCalls, bar: half }),
      rateRow("the same", rates.redis, { to: "bare pipelines", reference: rates.redisPipelines }),
      rateRow("Redis always", rates.redisAlways, { to: "Redis everysec", reference: rates.redis }),
      rateRow(`Postgres, bare: inserts of ${batch}, one connection`, rates.postgresOne),
      rateRow(`Postgres, bare: inserts of ${batch}, two connections`, rates.postgresTwo),
      rateRow("Postgres", rates.postgres, { to: "two connections", reference: rates.postgresTwo, bar: half }),
      rateRow("the same", rates.postgres, { to: "one connection", reference: rates.postgresOne }),
      rateRow("memory", rates.memory),
      rateRow("SQLite process", rates.process, toMemory),
      rateRow("SQLite power", rates.power, toMemory),
      rateRow("S3, a local server, 100 sessions", rates.s3, toMemory),
      rateRow("HTTP, the reference service, 100 sessions", rates.http, toMemory),
      costRow("1 session: Redis, a bare PING", trips.ping),
      pairedRow("1 session: Redis, a bare call of the smallest script", trips.smallest, ping),
      pairedRow("1 session: Redis, a bare call of the store's script", trips.script, ping),
      pairedRow("1 session: Redis everysec", trips.store, {
        to: "the store's script",
        reference: trips.script,
        bar: { atMost: 1.3 },
      }),
      pairedRow("the same", trips.store, { to: "the smallest script", reference: trips.smallest }),
      pairedRow("the same", trips.store, ping),
      costRow("1 session: Redis always", costs.redisAlways),
      costRow("1 session: Postgres, a bare insert", costs.insert),
      pairedRow("1 session: Postgres", costs.postgres, { to: "a bare insert", reference: costs.insert }),
      costRow("1 session: memory", costs.memory),
      costRow("1 session: SQLite process", costs.process),
      costRow("1 session: SQLite power", costs.power),
      costRow("1 session: S3", costs.s3),
      costRow("1 session: HTTP", costs.http),
      ...cpu,
    ],
    notes: [
      `1,000 sessions (S3 and HTTP: 100), each with one commit in flight at all times: 218 bytes of body, a key of 36.`,
      `Postgres: our commits came in groups of ${batch}, two under way at once; so the bar is to two bare connections. The bare table has no index but that of session and version.`,
      `Redis: the smallest script checks the version, sets the key and pushes the body. The store's also keeps its indexes for listings. A script takes longer than a PING whoever calls it.`,
      `CPU is that of all samples, per commit; servers by /proc, which counts in steps of 10 ms.`,
    ],
  };
}

/**
 * Commits of many logs made in batches, by several who take turns or go at the same time.
 *
 * @param {import("./commits.mjs").Log[]} logs
 * @param {number} each
 * @param {number} size
 * @param {((logs: import("./commits.mjs").Log[]) => Promise<unknown>)[]} writers
 */
function batches(logs, each, size, writers) {
  const parts = Array.from({ length: Math.ceil(logs.length / size) }, (_, at) =>
    logs.slice(at * size, (at + 1) * size),
  );
  const write = async (/** @type {number} */ writer) => {
    for (let done = 0; done < each; done++) {
      for (const [index, part] of parts.entries()) {
        if (index % writers.length === writer) await writers[writer]?.(part);
      }
    }
  };
  return {
    run: async () => {
      await Promise.all(writers.map((_, writer) => write(writer)));
      return logs.length * each;
    },
  };
}

/** How many commits come in one statement. @param {{ run: () => Promise<number> }} variant */
async function batchSize(variant) {
  const { query } = pg.Client.prototype;
  let statements = 0;
  pg.Client.prototype.query = function (...args) {
    statements++;
    return Reflect.apply(query, this, args);
  };
  try {
    return Math.round((await variant.run()) / statements);
  } finally {
    pg.Client.prototype.query = query;
  }
}

/** @param {string} what @param {{ own: number, servers: number, count: number }} used */
function cpuRows(what, { own, servers, count }) {
  const rows = [{ what: `CPU: ${what}, client`, value: own / count, unit: "µs" }];
  return servers === 0 ? rows : [...rows, { what: `CPU: ${what}, server`, value: servers / count, unit: "µs" }];
}
