// exportRollouts(): writes rollouts in formats for trainers: message lists, accepted rollouts only, or groups with
// advantages.
import { HoldfastError, messageOf } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { TaskRow } from "../core/rollout.ts";
import { toChat, type ChatRollout, type ToMessages } from "./export/chat.ts";
import { rowsByTask } from "./export/groups.ts";
import { assertFile, isFailed, rolloutName } from "./finished.ts";
import { mean, sampleStd } from "./metrics/statistics.ts";
import { readRows, type BadRow } from "./tasks.ts";

export interface ExportOptions {
  /** chat: every scored rollout. sft: rollouts with at least `minReward`. grpo: one line per task. */
  format: "chat" | "sft" | "grpo";
  minReward: number;
  toMessages: ToMessages;
  onBad(bad: BadRow, file: string): void;
}

export interface ExportCounts {
  /** Number of exported rollouts. */
  rollouts: number;
  /** Failed and masked rollouts, and with sft those below `minReward`. */
  left_out: number;
  lines: number;
}

/** Yields the lines of an export one by one, and updates `counts`. */
export async function* exportRollouts(
  file: string,
  options: ExportOptions,
  counts: ExportCounts,
): AsyncGenerator<TaskRow, void, undefined> {
  const { format } = options;
  for await (const line of format === "grpo" ? groups(file, options, counts) : single(file, options, counts)) {
    counts.lines++;
    yield line;
  }
}

async function* single(
  file: string,
  { format, minReward, toMessages, onBad }: ExportOptions,
  counts: ExportCounts,
): AsyncGenerator<TaskRow, void, undefined> {
  const least = format === "sft" ? minReward : -Infinity;
  assertFile(file);
  for await (const read of readRows(file)) {
    if (!("row" in read)) {
      onBad(read, file);
      continue;
    }
    const { row } = read;
    const reward = readReward(row);
    if (reward === undefined || reward < least) {
      counts.left_out++;
      continue;
    }
    counts.rollouts++;
    const { prompt, completion, tools } = converted(row, toMessages);
    yield { messages: [...prompt, ...completion], ...(tools.length > 0 && { tools }), ...pickIdentity(row), reward };
  }
}

async function* groups(
  file: string,
  { toMessages, onBad }: ExportOptions,
  counts: ExportCounts,
): AsyncGenerator<TaskRow, void, undefined> {
  for await (const { task, rows } of rowsByTask(file, onBad)) {
    const scored = rows.filter((row) => readReward(row) !== undefined);
    counts.left_out += rows.length - scored.length;
    const [first] = scored;
    if (!first) continue;
    counts.rollouts += scored.length;
    const rewards = scored.map((row) => readReward(row) as number);
    const [average, std] = [mean(rewards), sampleStd(rewards) ?? 0];
    const advantages = rewards.map((reward) => toAdvantage(reward, average, std));
    const { prompt, tools } = converted(first, toMessages);
    const rollouts = scored.map((row, at): Json => ({
      ...pickIdentity(row),
      reward: rewards[at] as number,
      advantage: advantages[at] as number,
      messages: converted(row, toMessages).completion,
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

/** Returns 0 if all rewards are equal, up to rounding: they carry no signal. */
function toAdvantage(reward: number, average: number, std: number): number {
  if (std <= Math.abs(average) * 1e-12) return 0;
  return (reward - average) / std || 0;
}

/** Returns undefined for rollouts that must not be learned from. */
function readReward(row: TaskRow): number | undefined {
  const { reward, mask_sample: isMasked } = row;
  return typeof reward === "number" && !isFailed(row) && isMasked !== true ? reward : undefined;
}

function pickIdentity(row: TaskRow): TaskRow {
  const fields = ["_ng_task_index", "_ng_rollout_index", "session_id"];
  return Object.fromEntries(fields.flatMap((name) => (row[name] === undefined ? [] : [[name, row[name]]])));
}

function converted(row: TaskRow, toMessages: ToMessages): ChatRollout {
  try {
    return toChat(row, toMessages);
  } catch (cause) {
    throw new HoldfastError("invalid_input", `${rolloutName(row)} cannot be exported: ${messageOf(cause)}`, { cause });
  }
}
