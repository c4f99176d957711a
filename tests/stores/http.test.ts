// The HTTP store passes the shared cases on the server of examples/http-store, also with kills in between.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { Appended, Commit, Store } from "../../src/core/store.ts";
import { httpStore } from "../../src/stores/http.ts";
import { storeCasesFor } from "../../src/testing/index.ts";
import { built } from "../built.ts";
import { serveStore, startStoreProcess, type Process } from "./http-server.ts";
import { manyRequests, runStoreCases } from "./run-cases.ts";

runStoreCases(
  "http",
  async () => {
    const { url, dispose } = await serveStore();
    return { open: () => httpStore({ url }), dispose };
  },
  { long: manyRequests },
);

async function newProcess(): Promise<Process> {
  const running = await startStoreProcess();
  onTestFinished(() => running.dispose());
  return running;
}

async function newStore(url: string): Promise<Store> {
  const store = await httpStore({ url });
  onTestFinished(() => store.close());
  return store;
}

function commitOf(session: string, version: number, key?: string): Commit {
  const heading = version === 0 ? { heading: { environment: "shop", opened: 1 } } : {};
  const entry = { body: `"${version + 1}"`, at: 1, ...(key !== undefined && { key }) };
  return { session, version, entries: [entry], ...heading };
}

describe("a server that is killed with -9 and restarted each time the storage is opened", { tags: ["full"] }, () => {
  const needing = storeCasesFor({ persistent: true }).filter(({ needs }) => needs === "persistent");
  expect(needing.length).toBeGreaterThan(10);
  test.each(needing)("$name", async ({ run }) => {
    const running = await startStoreProcess();
    let opened = 0;
    try {
      await run({
        async open() {
          if (opened++ > 0) {
            await running.kill();
            await running.start();
          }
          return httpStore({ url: running.url });
        },
      });
    } finally {
      await running.dispose();
    }
  });
});

test("DURABLE, ONCE: under kill -9 of the server, answered commits are there once, and the store recovers by itself", async () => {
  const running = await newProcess();
  const store = await newStore(running.url);
  const load = { isOver: false, answered: 0, doubts: 0 };

  /** Appends as the engine does: an unknown outcome is settled by reading. */
  async function client(session: string): Promise<number> {
    let version = 0;
    while (!load.isOver) {
      const before = version;
      const appended: Appended | undefined = await store.append(commitOf(session, version, `k${version}`)).catch(() => {
        load.doubts++;
        return undefined;
      });
      if (appended === undefined) {
        const log = await store.read(session, version).catch(() => undefined);
        if (log !== undefined && log.length > 0) version++;
      } else {
        // There is no other writer: a refused commit was resent.
        expect(appended).toBe("ok");
        version++;
      }
      if (version > before) load.answered++;
    }
    return version;
  }

  const names = Array.from({ length: 8 }, (_, at) => `s${at}`);
  const clients = Promise.all(names.map(client));
  for (let kills = 0; kills < 6; kills++) {
    const enough = load.answered + 60;
    await vi.waitFor(() => expect(load.answered).toBeGreaterThan(enough), { timeout: 20_000, interval: 5 });
    await running.kill();
    await running.start();
  }
  load.isOver = true;
  const versions = await clients;
  expect(load.doubts).toBeGreaterThan(0);
  for (const [at, name] of names.entries()) {
    const log = (await store.read(name, 0)) ?? [];
    expect(log.map(({ version }) => version)).toEqual(Array.from({ length: versions[at] as number }, (_, n) => n + 1));
  }
});

test(
  "a stopped server makes every verb settle in time as store_busy, and continues where it was",
  { tags: ["full"] },
  async () => {
    const running = await newProcess();
    const store = await newStore(running.url);
    expect(await store.append(commitOf("a", 0))).toBe("ok");
    running.signal("SIGSTOP");
    const began = performance.now();
    const outcomes = await Promise.allSettled([
      store.append(commitOf("b", 0)),
      store.append(commitOf("c", 0), commitOf("a", 1)),
      store.read("a", 0),
      store.load("a"),
      store.find("a", "k"),
      store.count("shop"),
      store.delete("none"),
      store.list()[Symbol.asyncIterator]().next(),
      httpStore({ url: running.url }),
    ]);
    expect(performance.now() - began).toBeLessThan(6000);
    const busy = { status: "rejected", reason: expect.objectContaining({ code: "store_busy" }) as unknown };
    expect(outcomes).toEqual(outcomes.map(() => busy));
    running.signal("SIGCONT");
    // It may still receive requests that were given up.
    expect(["ok", "conflict"]).toContain(await store.append(commitOf("a", 1)));
    expect((await store.read("a", 0))?.length).toBe(2);
  },
);

test("a commit waits for a server that is still starting, and is made once", async () => {
  const running = await newProcess();
  const store = await newStore(running.url);
  await running.kill();
  const answers = Promise.all([store.append(commitOf("a", 0, "k")), store.count("shop")]);
  await running.start();
  expect((await answers)[0]).toBe("ok");
  expect(await store.read("a", 0)).toMatchObject([{ version: 1, body: '"1"' }]);
});

test("a closed store does not keep its process alive", async () => {
  const running = await newProcess();
  const source = await built();
  const script = `
    import { httpStore } from ${JSON.stringify(pathToFileURL(join(source, "stores/http.js")).href)};
    const store = await httpStore({ url: ${JSON.stringify(running.url)} });
    await Promise.all(Array.from({ length: 100 }, (_, at) => store.count("shop")));
    await store.close();
    console.log("closed");`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stdout, "data");
  const began = performance.now();
  const [code] = (await once(child, "exit")) as [number];
  expect(code).toBe(0);
  expect(performance.now() - began).toBeLessThan(1500);
});
