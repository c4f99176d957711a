// Judges a file's episodes again, writes a file with new rewards, and reports the changes.
import { rmSync } from "node:fs";
import { cannotLoad } from "../../core/errors.ts";
import { finishedRollouts, type Finished } from "../../rollout/finished.ts";
import { outputPaths } from "../../rollout/output.ts";
import { createReverifier, type Reverified } from "../../rollout/reverify.ts";
import { createSessions } from "../../session/sessions.ts";
import { memoryStore } from "../../stores/memory.ts";
import { createCounterLine } from "../counter-line.ts";
import { assertFree, openOutput } from "../line-output.ts";
import { loadEnvironment } from "../../rollout/load.ts";
import { figure } from "../metrics/table.ts";
import { createComplaints, openStoreFor } from "../rollout-source.ts";

export interface ReverifyFlags {
  environment: string;
  store?: string;
  everyStep?: boolean;
  out: string;
  concurrency: number;
  force?: boolean;
  json?: boolean;
}

export async function runReverify(file: string, flags: ReverifyFlags): Promise<void> {
  const { out, everyStep = false, force = false } = flags;
  const paths = outputPaths(out);
  for (const path of [paths.rows, paths.failures]) assertFree(path, { force, input: file });
  const environment = await loadEnvironment(flags.environment);
  const source = finishedRollouts(file, createComplaints());
  const first = await source.next();
  if (first.done) throw cannotLoad(`${file} has no rollouts`);
  const store = await openStoreFor(file, flags.store);
  const scratch = () => {
    const copy = memoryStore();
    return { store: copy, sessions: createSessions({ environment, store: copy }) };
  };
  const reverify = createReverifier({ store, scratch, everyStep });
  const counting = createCounterLine("episodes judged");
  const counts = createCounts();
  const [rows, failures] = [openOutput(paths.rows), openOutput(paths.failures)];
  try {
    await sideBySide(startingWith(first.value, source), flags.concurrency, async ({ row, failed }) => {
      const isOther = failed && row["failure_kind"] !== "verify";
      const again = isOther ? { row, failed } : await reverify(row);
      await (again.failed ? failures : rows).write(JSON.stringify(again.row));
      counts.add(again, isOther);
      counting.add();
    });
    // The rows are written last, and never next to older failures. So if they exist, the output is complete.
    rmSync(paths.rows, { force: true });
    await failures.done();
    await rows.done();
  } finally {
    counting.end();
    await rows.abandon();
    await failures.abandon();
    await store.close();
  }
  const { judged, failed } = counts.result;
  if (failed > 0) process.exitCode = 1;
  if (flags.json) process.stdout.write(`${JSON.stringify({ file: out, ...counts.result })}\n`);
  else process.stdout.write(`${out}: ${inWords(counts.result, paths.failures)}\n${judged > 0 ? next(file, out) : ""}`);
}

interface Counts {
  /** Episodes that have a reward now. */
  judged: number;
  /** Judged episodes that had a different reward before, or none. */
  changed: number;
  new: number;
  /** Episodes that could not be judged. */
  failed: number;
  /** Failed episodes without a session in the store. */
  missing: number;
  /** Failures that do not concern the verifier. */
  copied: number;
  mean_before: number | null;
  mean_after: number | null;
}

function createCounts() {
  const result: Counts = {
    judged: 0,
    changed: 0,
    new: 0,
    failed: 0,
    missing: 0,
    copied: 0,
    mean_before: null,
    mean_after: null,
  };
  let [before, after, both] = [0, 0, 0];
  return {
    result,
    add({ row, failed, change }: Reverified, isOther: boolean): void {
      if (isOther) result.copied++;
      else if (failed) result.failed++;
      else result.judged++;
      if (!isOther && row["failure_kind"] === "store") result.missing++;
      if (isOther || failed) return;
      if (!change) return void result.new++;
      if (change.before !== change.after) result.changed++;
      [before, after, both] = [before + change.before, after + change.after, both + 1];
      [result.mean_before, result.mean_after] = [before / both, after / both];
    },
  };
}

function inWords(counts: Counts, failures: string): string {
  const { judged, changed, new: added, failed, missing, copied, mean_before, mean_after } = counts;
  const lost = missing > 0 ? ` (${missing} have no session in the store; check --store)` : "";
  const parts = [
    `${judged} judged again`,
    changed > 0
      ? `${changed} with a changed reward (mean ${figure(mean_before)} before, ${figure(mean_after)} now)`
      : "no reward changed",
    ...(added > 0 ? [`${added} without a reward before`] : []),
    ...(failed > 0 ? [`${failed} could not be judged${lost}: see ${failures}`] : []),
    ...(copied > 0 ? [`${copied} other failures copied`] : []),
  ];
  return parts.join(", ");
}

const next = (file: string, out: string): string => `Compare them: npx holdfast metrics ${file} ${out}\n`;

async function* startingWith(
  first: Finished,
  rest: AsyncIterable<Finished>,
): AsyncGenerator<Finished, void, undefined> {
  yield first;
  yield* rest;
}

/** Runs `work` on every item, up to `concurrency` at once. A failure stops it after the running ones are done. */
async function sideBySide<T>(
  source: AsyncIterator<T, void, undefined>,
  concurrency: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const stopped = new AbortController();
  const worker = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      const { value, done } = await source.next();
      if (done) return;
      await work(value);
    }
  };
  const guarded = (): Promise<void> => worker().catch((thrown: unknown) => stopped.abort(thrown));
  await Promise.all(Array.from({ length: concurrency }, guarded));
  stopped.signal.throwIfAborted();
}
