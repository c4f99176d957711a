// claimOutput(): locks an output, so that only one process on a machine writes to it at a time.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { invalidOption } from "../core/errors.ts";
import { makeFolder, privateFile } from "../io/private-files.ts";
import { cannotWrite, outputPaths } from "./output.ts";

/** Number of attempts. Two processes that start at the same time see each other, and both retry. */
const tries = 4;

/**
 * Claims an output with an empty file next to it, named after this process. The file is created before looking for
 * other files, so at least one of two processes sees the other. The file of a killed process is ignored, because that
 * process no longer exists.
 */
export async function claimOutput(out: string): Promise<{ release(): void }> {
  const prefix = outputPaths(out).run.replace(/json$/, "");
  const own = `${prefix}${process.pid}.${readStartTime(process.pid)}.lock`;
  for (let left = tries; ; left--) {
    try {
      makeFolder(dirname(own));
      writeFileSync(own, "", { mode: privateFile });
    } catch (cause) {
      throw cannotWrite(out, cause);
    }
    const holder = findHolder(prefix, own);
    if (holder === undefined) return { release: releaser(own) };
    rmSync(own, { force: true });
    if (left === 1) throw invalidOption(`process ${holder} is collecting to ${out}; choose another --out`);
    await delay(20 + 100 * Math.random());
  }
}

/** Returns a function that removes a claim, which runs at the latest when the process exits. */
function releaser(own: string): () => void {
  const release = (): void => {
    process.off("exit", release);
    rmSync(own, { force: true });
  };
  process.on("exit", release);
  return release;
}

/** Returns another process that holds a claim. Removes dead processes' claims. */
function findHolder(prefix: string, own: string): number | undefined {
  for (const name of readdirSync(dirname(prefix))) {
    const file = join(dirname(prefix), name);
    if (!name.startsWith(basename(prefix)) || file === own) continue;
    const [, pid, start] = /^(\d+)\.(\d+)\.lock$/.exec(name.slice(basename(prefix).length)) ?? [];
    if (pid === undefined) continue;
    if (isAlive(Number(pid)) && readStartTime(Number(pid)) === start) return Number(pid);
    rmSync(file, { force: true });
  }
  return undefined;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Returns a process's start time on Linux, because process ids are reused. Returns "0" on other systems. */
function readStartTime(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // After the name, which may contain anything, field 0 is the state (Z = zombie) and field 19 the start time.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? "never" : (fields[19] ?? "0");
  } catch {
    return "0";
  }
}
