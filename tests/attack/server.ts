// Servers under attack, and their memory: with a heap of at most 600 MB, none ever takes 512 MB.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { built } from "../built.ts";
import { startServing } from "../e2e/serve-process.ts";
import { root } from "../files.ts";

const heap = "--max-old-space-size=600";
const mostMegabytes = 512;

/** The largest memory of a process so far, in megabytes. Undefined if it has ended. */
function peakOf(process: number | "self"): number | undefined {
  try {
    const [, kilobytes] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${process}/status`, "utf8")) ?? [];
    return kilobytes === undefined ? undefined : Number(kilobytes) / 1024;
  } catch {
    return undefined;
  }
}

/** Follows the memory of a process, which must stay below the limit until the test ends. Returns its peak so far. */
export function limitMemory(process: number | "self" = "self"): () => number {
  let most = peakOf(process) ?? 0;
  const look = (): number => (most = Math.max(most, peakOf(process) ?? 0));
  const timer = setInterval(() => {
    if (peakOf(process) === undefined) clearInterval(timer);
    look();
  }, 100);
  onTestFinished(() => {
    clearInterval(timer);
    expect(look()).toBeGreaterThan(10);
    expect(most).toBeLessThan(mostMegabytes);
  });
  return () => Math.round(look());
}

interface AttackedOptions {
  /** Added to the environment variables. */
  env?: Record<string, string>;
  /** Options of Node, beside the size of the heap. */
  node?: string;
}

type Attacked = Awaited<ReturnType<typeof startServing>> & { memory(): number };

/** Starts `holdfast serve …` with a small heap. */
export async function startCommand(args: string[], { env, node = "" }: AttackedOptions = {}): Promise<Attacked> {
  return limited(await startServing(args, { env: { ...env, NODE_OPTIONS: `${heap} ${node}` } }));
}

/** Starts a server of a counter on a store, faster than the command and with a small heap. */
export async function startCounter(url: string, { env, node = "", idle }: AttackedOptions & { idle?: number } = {}) {
  const script = join(root, "tests/attack/serve-child.mjs");
  const args = [await built(), url, ...(idle === undefined ? [] : [String(idle)])];
  return limited(await startServing(args, { script, env: { ...env, NODE_OPTIONS: `${heap} ${node}` } }));
}

const limited = (serving: Awaited<ReturnType<typeof startServing>>): Attacked =>
  Object.assign(serving, { memory: limitMemory(serving.process.pid as number) });
