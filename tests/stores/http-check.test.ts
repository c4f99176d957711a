// holdfast check --store: the cases as a command, on a store in use, which it leaves unchanged.
import { expect, onTestFinished, test } from "vitest";
import type { Listed, Store } from "../../src/core/store.ts";
import { httpStore } from "../../src/stores/http.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { storeCases } from "../../src/testing/index.ts";
import { runStoreChecks } from "../../src/testing/store-checks.ts";
import { run } from "../e2e/serve-process.ts";
import { serveStore } from "./http-server.ts";

async function rowsOf(store: Store): Promise<Listed[]> {
  const rows: Listed[] = [];
  for await (const row of store.list()) rows.push(row);
  return rows;
}

/** Uses the names of the cases, so that a check that is not isolated fails. */
async function use(store: Store): Promise<void> {
  for (const session of ["a", "b", "s1"]) {
    const heading = { environment: "shop", opened: 1 };
    expect(await store.append({ session, version: 0, entries: [{ body: "1", at: 1, key: "k" }], heading })).toBe("ok");
  }
}

test(
  "a correct service passes every case, beside its existing data, which stays",
  { tags: ["full"], timeout: 180_000 },
  async () => {
    const { url, dispose } = await serveStore();
    onTestFinished(dispose);
    const store = await httpStore({ url });
    onTestFinished(() => store.close());
    await use(store);
    const before = await rowsOf(store);
    let heard = 0;
    const results = await runStoreChecks(
      () => httpStore({ url }),
      () => heard++,
    );
    expect(results.filter(({ result }) => result !== "pass")).toEqual([]);
    expect(results.length).toBe(storeCases.length + 1);
    expect(heard).toBe(storeCases.length);
    expect(await rowsOf(store)).toEqual(before);
  },
);

test("a store that ignores keys fails the cases of keys", async () => {
  const careless = async (): Promise<Store> => {
    const store = memoryStore();
    return {
      ...store,
      append: (...commits) => {
        for (const { entries } of commits) for (const entry of entries) delete entry.key;
        return store.append(...commits);
      },
    };
  };
  const results = await runStoreChecks(careless);
  const failed = results.filter(({ result }) => result === "fail");
  expect(failed.length).toBeGreaterThan(5);
  expect(failed.length).toBeLessThan(30);
  expect(failed.map(({ what }) => what)).toContain("ONCE: an entry is found by its key");
  for (const { message } of failed) expect(message).not.toBe("");
  expect(results.filter(({ result }) => result === "skipped").length).toBeGreaterThan(10);
});

test("the command announces its work, and exits 0 if all cases pass", { timeout: 180_000 }, async () => {
  const { code, stdout, stderr } = await run("check", "--store", "memory:");
  expect(stderr).toContain("sessions whose names start with holdfast:check:, and deletes them again");
  const skipped = storeCases.filter(({ needs }) => needs === "persistent").length;
  expect(stdout).toMatch(new RegExp(`\\n${storeCases.length + 1 - skipped} passed, 0 failed, ${skipped} skipped\\n$`));
  expect(code).toBe(0);
});

test.each([[[]], [["examples/counter", "--store", "memory:"]]])("check %j is refused in one line", async (args) => {
  const { code, stdout, stderr } = await run("check", ...args);
  expect({ code, stdout, stderr }).toEqual({
    code: 1,
    stdout: "",
    stderr: "invalid_option: name one target to check: an environment, a server URL, or --store URL\n",
  });
});
