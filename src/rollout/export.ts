// exportRollouts(): writes rollouts for trainers: message lists, accepted rollouts only, or groups with advantages.
import { HoldfastError, messageOf } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { TaskRow } from "../core/rollout.ts";
import { toChat, type ChatRollout } from "./export/chat.ts";
import { assertFile } from "../io/private-files.ts";
import { rolloutName, rolloutIndex } from "./finished.ts";
import { mean, sampleStd } from "./metrics/statistics.ts";
import { readReward } from "./row-fields.ts";
import { readGoodRows, readRowAt, type Span, type OnBad } from "./tasks.ts";
import { open } from "node:fs/promises";
import { createRowNumbering } from "./number-rows.ts";

export interface ExportOptions {
  /** chat: every scored rollout. sft: rollouts with at least `minReward`. grpo: one line per task. */
  format: "chat" | "sft" | "grpo";
  minReward: number;
  onBad: OnBad;
}

export interface ExportCounts {
  /** Number of exported rollouts. */
  rollouts: number;
  /**
   * Failed and masked rollouts, and rollouts with a broken chain of tokens. With sft and grpo also rollouts with an
   * ambiguous main conversation, and with sft rollouts below `minReward`.
   */
  left_out: number;
  lines: number;
}

/** Yields the lines of an export one by one, and updates `counts`. */
export async function* exportRollouts(
  file: string,
  options: ExportOptions,
  counts: ExportCounts,
): AsyncGenerator<TaskRow> {
  const { format } = options;
  for await (const line of format === "grpo" ? groups(file, options, counts) : single(file, options, counts)) {
    counts.lines++;
    yield line;
  }
}

async function* single(
  file: string,
  { format, minReward, onBad }: ExportOptions,
  counts: ExportCounts,
): AsyncGenerator<TaskRow> {
  const least = format === "sft" ? minReward : -Infinity;
  assertFile(file);
  for await (const { row } of readGoodRows(file, onBad)) {
    const reward = rewardToLearn(row, format);
    if (reward === undefined || reward < least) {
      counts.left_out++;
      continue;
    }
    counts.rollouts++;
    const { prompt, completion, tools } = converted(row);
    yield { messages: [...prompt, ...completion], ...(tools.length > 0 && { tools }), ...pickIdentity(row), reward };
  }
}

async function* groups(file: string, { format, onBad }: ExportOptions, counts: ExportCounts): AsyncGenerator<TaskRow> {
  for await (const { task, rows } of rowsByTask(file, onBad)) {
    const scored = rows.filter((row) => rewardToLearn(row, format) !== undefined);
    counts.left_out += rows.length - scored.length;
    const [first] = scored;
    if (!first) continue;
    counts.rollouts += scored.length;
    const rewards = scored.map((row) => rewardToLearn(row, format) as number);
    const [average, std] = [mean(rewards), sampleStd(rewards) ?? 0];
    const advantages = rewards.map((reward) => toAdvantage(reward, average, std));
    const { prompt, tools } = converted(first);
    const rollouts = scored.map((row, at): Json => ({
      ...pickIdentity(row),
      reward: rewards[at] as number,
      advantage: advantages[at] as number,
      messages: converted(row).completion,
    }));
    yield {
      _ng_task_index: task,
      prompt,
      ...(tools.length > 0 && { tools }),
      rewards,
      advantages,
      mean: average,
      std,
      rollouts,
    };
  }
}

/** Returns 0 if all rewards are equal up to rounding, because they carry no signal. */
function toAdvantage(reward: number, average: number, std: number): number {
  if (std <= Math.abs(average) * 1e-12) return 0;
  return (reward - average) / std || 0;
}

/** Returns undefined for rollouts that are left out. */
function rewardToLearn(row: TaskRow, format: ExportOptions["format"]): number | undefined {
  // The transcript may be a side conversation of the harness, to which the reward does not belong.
  const { main } = Object(row["harness"]) as TaskRow;
  if (row["token_chain"] === "broken" || (main === "ambiguous" && format !== "chat")) return undefined;
  return readReward(row);
}

function pickIdentity(row: TaskRow): TaskRow {
  const fields = ["_ng_task_index", "_ng_rollout_index", "session_id"];
  return Object.fromEntries(fields.flatMap((name) => (row[name] === undefined ? [] : [[name, row[name]]])));
}

function converted(row: TaskRow): ChatRollout {
  try {
    return toChat(row);
  } catch (cause) {
    throw new HoldfastError("invalid_input", `${rolloutName(row)} cannot be exported: ${messageOf(cause)}`, { cause });
  }
}

interface Place extends Span {
  repeat: number;
}

/** Yields each task with its rollouts, sorted by repeat. */
async function* rowsByTask(file: string, onBad: OnBad): AsyncGenerator<{ task: number; rows: TaskRow[] }> {
  assertFile(file);
  const places = await placesIn(file, onBad);
  const handle = await open(file);
  try {
    for (const task of [...places.keys()].sort((a, b) => a - b)) {
      const ordered = (places.get(task) ?? []).sort((a, b) => a.repeat - b.repeat);
      const rows: TaskRow[] = [];
      for (const place of ordered) rows.push((await readRowAt(handle, place)) as TaskRow);
      yield { task, rows };
    }
  } finally {
    await handle.close();
  }
}

async function placesIn(file: string, onBad: OnBad): Promise<Map<number, Place[]>> {
  const places = new Map<number, Place[]>();
  const number = createRowNumbering([file]);
  for await (const { row, at, bytes } of readGoodRows(file, onBad)) {
    const { task = 0, repeat = 0 } = rolloutIndex(await number(row));
    const place = { repeat, at, bytes };
    const known = places.get(task);
    if (known) known.push(place);
    else places.set(task, [place]);
  }
  return places;
}
