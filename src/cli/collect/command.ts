// One collection: puts its parts together, stops when it is told to, and says what came of it.
import { existsSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { HoldfastError } from "../../core/errors.ts";
import { claimOutput } from "../../rollout/output-lock.ts";
import { collect, type Collected } from "../../rollout/collect.ts";
import { forgetIn } from "../../rollout/forget.ts";
import { pathsOf } from "../../rollout/output.ts";
import { writeRecord } from "../../rollout/run-record.ts";
import { countLines, readRows } from "../../rollout/tasks.ts";
import { treeOf } from "../../rollout/tree.ts";
import { locate } from "../../rollout/load.ts";
import { storeFileOf } from "../rollout-source.ts";
import { openStore } from "../../stores/open.ts";
import { isUrl, type CollectionSettings } from "../../rollout/collection-settings.ts";
import { writeMetrics } from "../../rollout/write-metrics.ts";
import { createProgress, type Progress } from "./progress.ts";
import { assertQueue, queuePlayer } from "../../queue/collector.ts";
import { recordOf } from "../../rollout/record.ts";
import { sourceOf, type Source } from "../../rollout/source.ts";
import { summaryOf } from "./summary.ts";

const interrupted = 130;
const patience = 2_000;

/** Gives the exit code: 0 if every rollout was scored. */
export async function runCollection(target: string | undefined, flags: CollectionSettings): Promise<number> {
  assertQueue(flags);
  // Not the tasks with it: they may be more than the memory holds, and some of them wrong.
  const source = await sourceOf(target, flags);
  const tasks = await tasksOf(target, flags);
  // Before it is looked at what is there: two that find nothing would both begin.
  const claim = await claimOutput(flags.out);
  try {
    return await claimedCollection(target, source, tasks, flags);
  } finally {
    claim.release();
  }
}

async function claimedCollection(
  target: string | undefined,
  source: Source,
  tasks: string,
  flags: CollectionSettings,
): Promise<number> {
  const { out, seed, limit, repeats, branch: branches = [], concurrency, attempts } = flags;
  const record = await recordOf(target, source.environment, tasks, flags);
  let total = (await countLines(tasks, limit)) * repeats * treeOf(branches).leaves(0);
  const store = await openStore(flags.store ?? flags.queue ?? source.store ?? `sqlite:${storeFileOf(out)}`);
  const progress = createProgress({ total, json: flags.json ?? false });
  const { signal, end } = untilStopped(progress, flags);
  try {
    const player =
      flags.queue === undefined
        ? source.player(store)
        : await queuePlayer(target, flags, record, (text) => progress.say(text));
    await writeRecord(pathsOf(out).run, { ...record, ...codeOf(target, flags) });
    const collected = await collect({
      out,
      seed,
      limit,
      repeats,
      branches,
      concurrency,
      attempts,
      signal,
      run: record.run,
      tasks: readRows(tasks),
      prepare: source.prepare,
      play: player.play,
      forget: forgetIn(store),
      onStart: progress.start,
      onRow: progress.row,
      onRetry: progress.retry,
      onFewer(count) {
        total -= count;
        progress.fewer(count);
      },
    });
    progress.end();
    const metrics = await writeMetrics(out, source.agent, seed);
    if (flags.json) process.stdout.write(`${JSON.stringify({ type: "collected", ...collected, metrics })}\n`);
    else process.stdout.write(summaryOf(collected, metrics, { out, total }));
    // Not for ever: what does not look at its signal may be under way still.
    await Promise.race([player.stop(), delay(patience, undefined, { ref: false })]);
    return exitCodeOf(collected);
  } finally {
    end();
    progress.end();
    await store.close();
  }
}

function exitCodeOf({ stopped, failed }: Collected): number {
  if (stopped) return interrupted;
  return failed > 0 ? 1 : 0;
}

async function tasksOf(target: string | undefined, { tasks, out }: CollectionSettings): Promise<string> {
  if (tasks === undefined && target === undefined)
    throw new HoldfastError("invalid_option", "name the file of --tasks");
  const file = tasks ?? join(dirname(await locate(target as string, "environment")), "tasks.jsonl");
  if (resolve(file) === resolve(out)) throw new HoldfastError("invalid_option", "--out must not be the file of tasks");
  if (existsSync(file)) return file;
  throw new HoldfastError("cannot_load", `there is no file of tasks ${file}; name one with --tasks`);
}

/** Where the code is, for who looks at the run later: not a setting, as it may be elsewhere when the collection goes on. */
function codeOf(target: string | undefined, { out, server, agent }: CollectionSettings): { target?: string } {
  if (target === undefined || server !== undefined || isUrl(agent)) return {};
  if (!existsSync(target)) return { target };
  const way = relative(resolve(dirname(out)), resolve(target)).replaceAll("\\", "/");
  return { target: isAbsolute(way) || way.startsWith("..") ? way : `./${way}` };
}

/** Aborted by the first signal that asks to stop. The second ends the process. */
function untilStopped(progress: Progress, { queue }: CollectionSettings): { signal: AbortSignal; end(): void } {
  const stopping = new AbortController();
  const stop = (): void => {
    if (stopping.signal.aborted) process.exit(interrupted);
    const what =
      queue === undefined ? "what is under way goes on" : "what workers have begun they end, and it is taken";
    progress.say(`stopping; ${what} with --resume (again to end at once)`);
    stopping.abort();
  };
  process.on("SIGINT", stop).on("SIGTERM", stop);
  return {
    signal: stopping.signal,
    end: () => void process.removeListener("SIGINT", stop).removeListener("SIGTERM", stop),
  };
}
