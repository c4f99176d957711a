// The stores with a server, each on a real one of its own: Redis, Postgres, an S3 server and the reference HTTP service.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { httpStore } from "holdfast/stores/http";
import { postgresStore } from "holdfast/stores/postgres";
import { redisStore } from "holdfast/stores/redis";
import { s3Store } from "holdfast/stores/s3";
import { ensureBinaries } from "../tools/binaries.mjs";
import { startPostgres } from "../tools/servers/postgres.mjs";
import { startRedis } from "../tools/servers/redis.mjs";
import { family, startNode } from "./processes.mjs";

/**
 * A store, its server, and the processes that the server is.
 *
 * @typedef {{ store: import("holdfast").Store, url: string, pids: () => number[], ask?: (...command: string[]) => Promise<string>, sizes?: string }} Served
 * @typedef {"redis" | "redisAlways" | "postgres" | "s3" | "http"} ServedName
 */

const pathOf = (/** @type {string} */ file) => fileURLToPath(new URL(file, import.meta.url));

/**
 * Runs with all of them, and stops them.
 *
 * @template T
 * @param {(served: Record<ServedName, Served>) => Promise<T>} run
 * @returns {Promise<T>}
 */
export async function withServers(run) {
  ensureBinaries();
  /** @type {(() => unknown)[]} */
  const ends = [];
  const folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  ends.push(() => rmSync(folder, { recursive: true, force: true }));
  const opened = (/** @type {import("holdfast").Store} */ store) => {
    ends.push(() => store.close());
    return store;
  };
  const redis = async (/** @type {string} */ fsync) => {
    const server = await startRedis({ args: ["--appendonly", "yes", "--appendfsync", fsync] });
    ends.push(() => server.stop());
    const store = opened(redisStore({ url: server.url }));
    return { store, url: server.url, pids: () => [server.pid], ask: server.command };
  };
  try {
    const postgres = await startPostgres();
    ends.push(() => postgres.stop());
    const s3 = await startNode([pathOf("s3-server.mjs")]);
    ends.push(() => s3.stop());
    const jiti = fileURLToPath(new URL("lib/jiti-cli.mjs", import.meta.resolve("jiti/package.json")));
    const file = join(folder, "http.db");
    const http = await startNode([jiti, pathOf("../examples/http-store/start.ts"), file, "0"]);
    ends.push(() => http.stop());
    const s3Url = `s3://test/bench?endpoint=${s3.url}&region=us-east-1`;
    return await run({
      redis: await redis("everysec"),
      redisAlways: await redis("always"),
      postgres: {
        store: opened(postgresStore({ url: postgres.url })),
        url: postgres.url,
        pids: () => family(postgres.pid),
      },
      s3: {
        store: opened(s3Store({ url: s3Url, credentials: { accessKeyId: "AKIDTEST", secretAccessKey: "secret" } })),
        url: s3.url,
        pids: () => [s3.pid],
        sizes: s3.others[0],
      },
      http: { store: opened(await httpStore({ url: http.url })), url: http.url, pids: () => [http.pid] },
    });
  } finally {
    for (const end of ends.reverse()) await end();
  }
}
