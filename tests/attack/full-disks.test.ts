// A disk that is full again and again: a small file system in memory, or a limit on the size of files where mounting is not
// allowed. Calls are refused with a code and applied once when there is room. tests/e2e has a full Redis and a full Postgres.
import { execFileSync } from "node:child_process";
import { mkdtemp, rm, statfs, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { expectExact, openSessions, startLoad } from "../e2e/replicas-load.ts";
import { startCounter } from "./server.ts";
import { attacks, lasting, report } from "./size.ts";

interface Disk {
  folder: string;
  kind: string;
  /** Leaves no room for the files of a process. */
  fill(process: number): Promise<void>;
  free(process: number): Promise<void>;
}

async function newDisk(): Promise<Disk> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-disk-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], { stdio: "ignore" });
  } catch {
    const limit = (size: string) => async (process: number) =>
      void execFileSync("prlimit", [`--fsize=${size}:unlimited`, "--pid", String(process)]);
    return { folder, kind: "limits of file sizes", fill: limit("1"), free: limit("unlimited") };
  }
  onTestFinished(() => void execFileSync("umount", ["-l", folder]));
  const filler = join(folder, "filler");
  return {
    folder,
    kind: "full file systems",
    async fill() {
      const { bavail, bsize } = await statfs(folder);
      await writeFile(filler, Buffer.alloc(Math.max(0, bavail * bsize))).catch(() => undefined);
    },
    free: () => rm(filler, { force: true }),
  };
}

test(
  "DURABLE, ONCE: a disk that is full again and again loses and doubles nothing, on SQLite",
  lasting(60),
  async () => {
    const disk = await newDisk();
    const serving = await startCounter(`sqlite:${join(disk.folder, "sessions.db")}`);
    const pid = serving.process.pid as number;
    const sessions = await openSessions([serving], 8);
    const load = startLoad({ replicas: [serving], sessions, clients: 8, cutEvery: 10 });
    const failed = load.done.then(() => expect.fail("the load has ended"));
    failed.catch(() => undefined);
    const refused = (): number =>
      [...load.troubles].reduce((sum, [code, count]) => sum + (code.startsWith("store_") ? count : 0), 0);
    let fills = 0;
    for (; fills < attacks(100); fills++) {
      const [before, answered] = [refused(), load.answered()];
      await disk.fill(pid);
      while (refused() < before + 5) await Promise.race([sleep(10), failed]);
      expect((await fetch(`${serving.url}/healthz`)).status).toBe(200);
      await disk.free(pid);
      while (load.answered() < answered + 10) await Promise.race([sleep(10), failed]);
    }
    await load.stop();
    const applied = await expectExact([serving], sessions, load);
    expect(applied).toBe(load.answered());
    const codes = [...load.troubles].map(([code, count]) => `${count} ${code}`).join(", ");
    report(disk.kind, { fills, calls: applied, [`refusals (${codes})`]: refused() });
  },
);
