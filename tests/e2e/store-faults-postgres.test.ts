// Servers whose Postgres is stopped, restarted, paused, cut off, read-only or out of connections while clients run.
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { ask, startPostgres, type RunningServer } from "../../tools/servers/postgres.mjs";
import { runs } from "../runs.ts";
import { throughOutages } from "./replicas-outage.ts";
import { expectRefused, expectResolved, expectWaiting } from "./replicas-refusals.ts";
import { startReplicas, type Replica } from "./replicas-servers.ts";

const slowTest = { tags: ["full"], timeout: 180_000 * runs(1) };
const cut = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'holdfast'";
const few = { max_connections: 5, superuser_reserved_connections: 0 };

async function postgres(settings: Record<string, string | number> = {}): Promise<RunningServer> {
  const server = await startPostgres({ settings });
  onTestFinished(() => server.stop());
  return server;
}

test(
  "DURABLE, ONCE: Postgres is stopped, paused, restarted and cut off: 503 in time, and recovery by itself",
  slowTest,
  async () => {
    const server = await postgres();
    const cutAll = () => ask(server.url, cut);
    await throughOutages(await startReplicas(server.url, 2), [
      { name: "stopped", begin: () => server.kill(), end: () => server.restart(), lasts: 5500, isNoticed: true },
      { name: "paused", begin: () => server.pause(), end: () => server.resume(), lasts: 5500, isNoticed: true },
      { name: "restarted", begin: () => server.restart(), end: () => undefined, lasts: 0, isNoticed: false },
      { name: "cut off", begin: cutAll, end: cutAll, lasts: 500, isNoticed: false },
    ]);
  },
);

test(
  "a client's view of a Postgres that refuses writes, is away at the start, or commits without answering",
  slowTest,
  async () => {
    const [sleeping, refusing, leaving] = await Promise.all([postgres(), postgres(few), postgres()]);
    const [url, elsewhere] = [leaving.url.replace("holdfast@", "holdfast:sesame@"), `${leaving.url}_elsewhere`];
    await Promise.all([
      startReplicas(sleeping.url, 2).then((replicas) => expectResolved(replicas, sleeping)),
      startReplicas(refusing.url, 1).then((replicas) => refusals(replicas, refusing)),
      expectWaiting(leaving, url, elsewhere, "does not have this database"),
    ]);
  },
);

async function refusals(replicas: Replica[], server: RunningServer): Promise<void> {
  const readOnly = async (value: string): Promise<void> => {
    await ask(server.url, `ALTER SYSTEM SET default_transaction_read_only = ${value}`);
    await ask(server.url, "SELECT pg_reload_conf()");
    // The change takes a moment, and longer in open connections.
    const isSo = async () => Object.values((await ask(server.url, "SHOW default_transaction_read_only"))[0] ?? {});
    await expect.poll(isSo).toEqual([value]);
    await ask(server.url, cut);
  };
  await expectRefused(replicas, {
    begin: () => readOnly("on"),
    error: { status: 503, code: "store_failed", message: "is read-only" },
    end: () => readOnly("off"),
  });

  const others: pg.Client[] = [];
  await expectRefused(replicas, {
    async begin() {
      // Uses up all connections, those of our server too.
      while (others.length < few.max_connections) {
        const client = new pg.Client({ connectionString: server.url });
        client.on("error", () => undefined);
        await client.connect().then(
          () => others.push(client),
          () => undefined,
        );
        await others[0]?.query(cut);
      }
    },
    error: { status: 503, code: "store_busy", message: "has no free connection" },
    end: () => Promise.all(others.map((client) => client.end())),
  });
}
