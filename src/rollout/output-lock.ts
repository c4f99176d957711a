// The claim to an output: of several processes on a machine that would write to it, one may.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { HoldfastError, messageOf } from "../core/errors.ts";
import { pathsOf } from "./output.ts";

export interface Claim {
  release(): void;
}

/** How often it is tried: two that come at the same moment see each other, and both step back. */
const tries = 4;

/**
 * Claims an output, by an empty file beside it that is named after this process. First it is made, and then looked for
 * those of others: so of two at least one sees the other. What a process left behind that was killed blocks nobody, as
 * there is no such process.
 */
export async function claimOutput(out: string): Promise<Claim> {
  const prefix = pathsOf(out).run.replace(/json$/, "");
  const own = `${prefix}${process.pid}.${startOf(process.pid)}.lock`;
  for (let left = tries; ; left--) {
    try {
      mkdirSync(dirname(own), { recursive: true });
      writeFileSync(own, "");
    } catch (cause) {
      throw new HoldfastError("cannot_load", `${out} cannot be written: ${messageOf(cause)}`, { cause });
    }
    const holder = holderOf(prefix, own);
    if (holder === undefined) return { release: () => rmSync(own, { force: true }) };
    rmSync(own, { force: true });
    if (left === 1) {
      throw new HoldfastError("invalid_option", `process ${holder} is collecting to ${out}; choose another --out`);
    }
    await delay(20 + 100 * Math.random());
  }
}

/** The process that has claimed it too. Removes the claims of those that are no more. */
function holderOf(prefix: string, own: string): number | undefined {
  for (const name of readdirSync(dirname(prefix))) {
    const file = join(dirname(prefix), name);
    if (!name.startsWith(basename(prefix)) || file === own) continue;
    const [, pid, start] = /^(\d+)\.(\d+)\.lock$/.exec(name.slice(basename(prefix).length)) ?? [];
    if (pid === undefined) continue;
    if (isAlive(Number(pid)) && startOf(Number(pid)) === start) return Number(pid);
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

/** When a process began, as Linux tells: another one may have its number later. "0" elsewhere. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // After the name, which may hold anything: whether it was killed and is not buried yet, and as the twentieth the time.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? "never" : (fields[19] ?? "0");
  } catch {
    return "0";
  }
}
