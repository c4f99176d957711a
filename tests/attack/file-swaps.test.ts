// The files of a SQLite store that are moved, replaced, removed, truncated or overwritten under a running server with load.
// Within a moment nothing more is answered, and everything that was answered before is there again when the files are back.
import { execFileSync } from "node:child_process";
import { cp, mkdtemp, readdir, rename, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { expectExact, openSessions, startLoad } from "../e2e/replicas-load.ts";
import { root } from "../files.ts";
import { startCounter } from "./server.ts";
import { attacks, lasting, report } from "./size.ts";

/** Milliseconds in which a change is noticed. Checks are 100 ms apart, and this machine may be busy. */
const noticed = 1_000;

const swaps: { name: string; swap(file: string, folder: string): Promise<void> }[] = [
  { name: "moved", swap: (file) => rename(file, `${file}.moved`) },
  { name: "moved with its log", swap: (_, folder) => rename(folder, `${folder}-moved`) },
  {
    name: "replaced by a copy",
    async swap(file) {
      await cp(file, `${file}.copy`);
      await rename(file, `${file}.moved`);
      await rename(`${file}.copy`, file);
    },
  },
  {
    name: "replaced by another",
    async swap(file) {
      await rename(file, `${file}.moved`);
      await writeFile(file, "not a database");
    },
  },
];

test(
  "DURABLE: a database that is moved or replaced is refused, and continues when it is back",
  lasting(60),
  async () => {
    const parent = await mkdtemp(join(tmpdir(), "holdfast-swap-"));
    onTestFinished(() => rm(parent, { recursive: true, force: true }));
    const folder = join(parent, "data");
    execFileSync("mkdir", [folder]);
    const file = join(folder, "sessions.db");
    const serving = await startCounter(`sqlite:${file}`);
    const sessions = await openSessions([serving], 8);
    const load = startLoad({ replicas: [serving], sessions, clients: 8 });
    const failed = load.done.then(() => expect.fail("the load has ended"));
    failed.catch(() => undefined);
    const isReady = async (): Promise<boolean> => (await fetch(`${serving.url}/readyz`)).status === 200;
    let count = 0;
    for (; count < attacks(100); count++) {
      const before = load.answered();
      while (load.answered() < before + 10) await Promise.race([sleep(5), failed]);
      const { swap } = swaps[count % swaps.length]!;
      await swap(file, folder);
      const since = performance.now();
      while (await isReady()) {
        expect(performance.now() - since).toBeLessThan(noticed);
        await sleep(10);
      }
      // Answers that left the server before it noticed may still be on their way.
      await sleep(200);
      const answered = load.answered();
      await sleep(200);
      expect(load.answered()).toBe(answered);
      // Everything as it was.
      const names = await readdir(parent);
      if (names.includes("data-moved")) {
        await rm(folder, { recursive: true, force: true });
        await rename(`${folder}-moved`, folder);
      } else await rename(`${file}.moved`, file);
      while (!(await isReady())) await Promise.race([sleep(20), failed]);
    }
    await load.stop();
    const applied = await expectExact([serving], sessions, load);
    expect(applied).toBe(load.answered());
    report("file swaps", { swaps: count, calls: applied });
  },
);

/** What cannot be taken back: the server refuses, and a new one finds a damaged file or an empty one. */
const harms: { name: string; harm(file: string): Promise<void> }[] = [
  { name: "removed", harm: (file) => rm(file) },
  { name: "truncated", harm: (file) => truncate(file, 0) },
  { name: "without its log", harm: (file) => rm(`${file}-wal`) },
  { name: "with a truncated log", harm: (file) => truncate(`${file}-wal`, 0) },
  { name: "overwritten", harm: (file) => writeFile(file, "x".repeat(65_536), { flag: "r+" }) },
  {
    name: "made newer",
    async harm(file) {
      const code = `const { DatabaseSync } = process.getBuiltinModule?.("node:sqlite") ?? require("@photostructure/sqlite");
        new DatabaseSync(process.argv[1]).exec("PRAGMA user_version = 99")`;
      execFileSync(process.execPath, ["-e", code, file], { cwd: root });
    },
  },
];

test("DURABLE: a database that is damaged under a server is refused within a second", lasting(60), async () => {
  const counts: Record<string, number> = {};
  for (let n = 0; n < Math.max(harms.length, attacks(60)); n++) {
    const { name, harm } = harms[n % harms.length]!;
    const folder = await mkdtemp(join(tmpdir(), "holdfast-harm-"));
    const file = join(folder, "sessions.db");
    const serving = await startCounter(`sqlite:${file}`);
    const sessions = await openSessions([serving], 4);
    const load = startLoad({ replicas: [serving], sessions, clients: 4, retryFor: 1_500 });
    load.done.catch(() => undefined);
    while (load.answered() < 20) await sleep(5);
    await harm(file);
    await sleep(noticed);
    const answered = load.answered();
    const ready = await fetch(`${serving.url}/readyz`);
    expect([name, ready.status]).toEqual([name, 503]);
    await sleep(200);
    expect([name, load.answered()]).toEqual([name, answered]);
    serving.process.kill("SIGKILL");
    await load.stop().catch(() => undefined);
    await rm(folder, { recursive: true, force: true });
    counts[name] = (counts[name] ?? 0) + 1;
  }
  report("damaged files", counts);
});
