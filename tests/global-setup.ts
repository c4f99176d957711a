// Gives each test run a folder of its own for what built.ts compiles, and servers for the stores; ends them afterwards.
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startPostgres } from "../tools/servers/postgres.mjs";
import { startRedis } from "../tools/servers/redis.mjs";

export default async function setup(): Promise<() => Promise<void>> {
  // Within node_modules, so that what is compiled there finds the packages.
  const parent = fileURLToPath(new URL("../node_modules/.cache/holdfast-tests/", import.meta.url));
  await mkdir(parent, { recursive: true });
  const folder = await mkdtemp(join(parent, "run-"));
  process.env["HOLDFAST_BUILT"] = folder;
  // What survives a crash of a server is tested on servers of its own; of these only the processes around them end.
  const [redis, postgres] = await Promise.all([startRedis(), startPostgres({ settings: { fsync: "off" } })]);
  process.env["HOLDFAST_TEST_REDIS"] = redis.url;
  process.env["HOLDFAST_TEST_POSTGRES"] = postgres.url;
  return async () => {
    await Promise.all([redis.stop(), postgres.stop()]);
    await rm(folder, { recursive: true, force: true });
  };
}
