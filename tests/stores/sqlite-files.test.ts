// A SQLite store notices that its files were changed under it: nothing is answered that a restart would not find.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import type { Commit, Store } from "../../src/core/store.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";

const parent = mkdtempSync(join(tmpdir(), "holdfast-sqlite-files-"));
let files = 0;
afterAll(() => rmSync(parent, { recursive: true, force: true }));

const newFile = (): string => join(parent, `${files++}.db`);

function commitOf(session: string, version: number): Commit {
  const heading = version === 0 ? { heading: { environment: "shop", opened: 1 } } : {};
  return { session, version, entries: [{ body: `"${"x".repeat(500)}"`, at: version }], ...heading };
}

async function filled(file: string, sessions = 100): Promise<Store> {
  const store = sqliteStore({ file });
  await Promise.all(Array.from({ length: sessions }, (_, index) => store.append(commitOf(`s${index}`, 0))));
  return store;
}

/** Runs a shell command in another process: to open and close the file here would drop SQLite's locks. */
const shell = (command: string, file: string): void =>
  void execFileSync("bash", ["-ec", command], { env: { ...process.env, F: file } });

const sql = (statements: string) =>
  `"${process.execPath}" -e 'const { DatabaseSync } =
    process.getBuiltinModule?.("node:sqlite") ?? require("@photostructure/sqlite");
  new DatabaseSync(process.env.F).exec("${statements}")'`;

describe("a SQLite file under a running process", () => {
  test.each<[string, string, "store_failed" | "store_corrupt" | "store_newer"]>([
    ["removed", "rm $F", "store_failed"],
    ["renamed", "mv $F $F.old", "store_failed"],
    ["replaced by a copy of itself", "cp $F $F.new; mv $F.new $F", "store_failed"],
    ["replaced with its log", "cp $F $F.new; rm $F $F-wal $F-shm; mv $F.new $F", "store_failed"],
    ["truncated to nothing", "truncate -s 0 $F", "store_corrupt"],
    ["truncated to a part", "truncate -s 8192 $F", "store_corrupt"],
    ["overwritten with text", "yes notes | head -c 65536 | dd of=$F conv=notrunc status=none", "store_corrupt"],
    ["overwritten with an older copy", "cat $F.backup > $F", "store_corrupt"],
    ["without its log", "rm $F-wal", "store_failed"],
    ["with a truncated log", "truncate -s 0 $F-wal", "store_corrupt"],
    ["made newer", sql("PRAGMA user_version = 99"), "store_newer"],
  ])("%s, is refused within a second, and the reason is named", async (_, command, code) => {
    const file = newFile();
    await (await filled(file, 3)).close();
    copyFileSync(file, `${file}.backup`);
    const store = await filled(file);
    // Pages must be in the file, not only in its log.
    shell(sql("PRAGMA wal_checkpoint(PASSIVE)"), file);
    expect(await store.append(commitOf("new", 0))).toBe("ok");
    await delay(120);
    expect(await store.append(commitOf("new", 1))).toBe("ok");
    shell(command, file);
    await delay(120);
    const refused = expect.objectContaining({ code, message: expect.stringContaining(file) as string }) as Error;
    await expect(store.append(commitOf("new", 2))).rejects.toEqual(refused);
    await expect(store.read("new", 0)).rejects.toEqual(refused);
    await expect(store.delete("new")).rejects.toEqual(refused);
    await expect(store.count("shop")).rejects.toEqual(refused);
    await store.close();
  });

  test("moved away and back, it is used again", async () => {
    const file = newFile();
    const store = await filled(file);
    shell("mv $F $F.old", file);
    await delay(120);
    await expect(store.append(commitOf("new", 0))).rejects.toThrow("was removed or renamed");
    shell("mv $F.old $F", file);
    await delay(120);
    expect(await store.append(commitOf("new", 0))).toBe("ok");
    await store.close();
  });

  test("checkpointed, emptied and compacted by other programs, it stays usable", async () => {
    const file = newFile();
    const store = await filled(file, 500);
    for (const statements of ["DELETE FROM events WHERE session > 50", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"]) {
      shell(sql(statements), file);
      await delay(120);
      expect(await store.append(commitOf(`after ${statements}`, 0))).toBe("ok");
    }
    await store.close();
  });

  test("with truncated shared memory, it is repaired before SQLite touches it", async () => {
    const file = newFile();
    const store = await filled(file);
    await delay(120);
    shell("truncate -s 0 $F-shm", file);
    expect(await store.append(commitOf("new", 0))).toBe("ok");
    expect(await store.count("shop")).toBe(101);
    await store.close();
    const again = sqliteStore({ file });
    expect(await again.count("shop")).toBe(101);
    await again.close();
  });
});
