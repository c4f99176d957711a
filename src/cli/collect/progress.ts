// Shows a collection's progress: one changing line on a terminal, plain lines elsewhere, or events as JSON.
import { summarizeThrown, type NumberedEvent, type Thrown } from "../../core/event.ts";
import type { Rollout, RolloutFailure, TaskRow } from "../../core/rollout.ts";
import { hasEstimatedTokens } from "../../rollout/row-fields.ts";
import { rolloutKey } from "../../rollout/output.ts";
import { readBranch } from "../../rollout/tree.ts";
import { kindText } from "../metrics/lines.ts";
import { plain, plainLine, print } from "../../io/plain.ts";
import { createTally } from "../tally.ts";

export type Progress = ReturnType<typeof createProgress>;

const everyOnTerminal = 200;
const everyElsewhere = 10_000;

export function createProgress({ json, isQueued = false }: { json: boolean; isQueued?: boolean }) {
  let total = 0;
  const isTerminal = process.stderr.isTTY && !json;
  const began = performance.now();
  const places = new Set<string>();
  const [failures, errors] = [createTally(), createTally()];
  let [before, done, scored, reward, failed, running] = [0, 0, 0, 0, 0, 0];
  let [answers, calls, tokens, repeated] = [0, 0, 0, 0];
  /** The tokens of running attempts, by rollout. */
  const used = new Map<string, number>();
  let [isBegun, isOver, isLive, isEstimate] = [false, false, false, false];
  const timer = setInterval(show, isTerminal ? everyOnTerminal : everyElsewhere).unref();

  /** Returns the parts of the line, the most important first. */
  function parts(): string[] {
    const seconds = (performance.now() - began) / 1000;
    const left = done > 0 ? ((total - before - done) * seconds) / done : 0;
    const all = [
      `${before + done} of ${total}`,
      running > 0 && `${running} ${isQueued ? "handed out" : "running"}`,
      failed > 0 && `${failed} failed`,
      timeText(seconds),
      left > 0 && `about ${timeText(left)} left`,
      scored > 0 && `mean reward ${(reward / scored).toFixed(3)}`,
      `${short(answers)} model calls`,
      `${short(calls)} tool calls`,
      `${isEstimate ? "about " : ""}${short(tokens)} tokens`,
      errors.lines().length > 0 && "errors in your code",
    ];
    return all.filter((part) => part !== false);
  }

  function show(): void {
    if (json || isOver || !isBegun) return;
    if (!isTerminal) process.stderr.write(`${parts().join(" · ")}\n`);
    else process.stderr.write(`\r\u001B[2K${fitting(parts(), (process.stderr.columns || 80) - 1)}`);
  }

  const tell = (text: string): void => void process.stderr.write(`${isTerminal ? "\r\u001B[2K" : ""}${text}\n`);
  const say = (text: string): void => tell(plainLine(text));

  function countRow(row: TaskRow): void {
    isEstimate ||= hasEstimatedTokens(row);
    if (isLive) return;
    const { usage, output } = Object(row["response"]) as { usage?: unknown; output?: { type?: string }[] };
    const types = (output ?? []).map((item) => (Object(item) as { type?: string }).type);
    const isAnswer = (type: string | undefined): boolean => type !== "function_call_output";
    tokens += Number((Object(usage) as { total_tokens?: number }).total_tokens ?? 0);
    calls += types.filter((type) => type === "function_call").length;
    const { model_calls: asked } = Object(row["harness"]) as { model_calls?: number };
    answers += asked ?? types.filter((type, at) => isAnswer(type) && (at === 0 || !isAnswer(types[at - 1]))).length;
  }

  return {
    plan(planned: number): void {
      total = planned;
    },
    /** Starts with the number of existing rows. */
    start(there: number): void {
      before = there;
      isBegun = true;
      if (json) write({ type: "started", total, before });
    },
    fewer(count: number): void {
      total -= count;
    },
    running(count: number): void {
      running = count;
    },
    /** Counts calls and tokens while an episode runs. Without events, they are counted when it ends. */
    event(event: NumberedEvent, { task, repeat }: Rollout): void {
      isLive = true;
      if (event.type !== "model.answered") return;
      const key = `${task} ${repeat}`;
      const { total_tokens: spent = 0 } = event.usage ?? {};
      answers++;
      calls += (event.items ?? []).filter(({ type }) => type === "function_call").length;
      tokens += spent;
      used.set(key, (used.get(key) ?? 0) + spent);
    },
    row(row: TaskRow, isFailed: boolean, thrown: string[]): void {
      done++;
      used.delete(rolloutKey(row));
      countRow(row);
      for (const error of thrown) if (errors.add(error) && !json) say(`error thrown by your code: ${error}`);
      if (isFailed) {
        failed++;
        const text = `${kindText(String(row["failure_kind"]))}: ${String(row["failure_reason"])}`;
        if (failures.add(text) && !json) say(`rollout failed (task ${String(row["_ng_task_index"])}): ${text}`);
      } else {
        scored++;
        reward += Number(row["reward"] ?? 0);
      }
      if (!json) return;
      const { _ng_task_index: task, _ng_rollout_index: repeat, reward: given, failure_kind, failure_reason } = row;
      const branch = readBranch(row) || undefined;
      const event = { type: isFailed ? "failed" : "scored", task, repeat, branch, reward: given };
      write({ ...event, failure_kind, failure_reason, ...(thrown.length > 0 && { errors: thrown }) });
    },
    retry({ task, repeat, attempt }: Rollout, { kind, reason, isPlayed = false }: RolloutFailure): void {
      const key = `${task} ${repeat}`;
      if (!isPlayed) repeated += used.get(key) ?? 0;
      if (!isPlayed) used.delete(key);
      if (json) write({ type: "retried", task, repeat, attempt, failure_kind: kind, failure_reason: reason });
    },
    say,
    /** Counts an error of the author's code that belongs to no rollout. It is already printed. */
    stray: (what: string): void => void errors.add(what),
    /** Prints an error's stack trace, once for each place. */
    stack(thrown: Thrown): void {
      if (places.has(thrown.place)) return;
      places.add(thrown.place);
      tell(plain(thrown.stack ?? summarizeThrown(thrown)));
    },
    total: () => total,
    /** Returns the tokens of failed attempts that were repeated. The metrics count only each rollout's last attempt. */
    repeated: () => repeated,
    /** Formats the reasons for failures, and the errors in the author's code, with their counts. */
    reasons: () => ({ failures: failures.lines(), errors: errors.lines() }),
    end(): void {
      if (isOver) return;
      // Removes the changing line from a terminal. Elsewhere, one more line shows the final counts.
      if (isTerminal && isBegun) process.stderr.write("\r\u001B[2K");
      else show();
      clearInterval(timer);
      isOver = true;
    },
  };
}

/** Joins the parts. A part that makes the line too long is omitted. */
function fitting(parts: string[], width: number): string {
  const room = Math.max(20, width);
  return parts.reduce((line, part) => {
    const longer = line === "" ? part : `${line} · ${part}`;
    return longer.length <= room ? longer : line;
  }, "");
}

const short = (count: number): string => {
  if (count < 10_000) return String(count);
  return count < 1e6 ? `${Math.round(count / 1e3)}k` : `${(count / 1e6).toFixed(1)}M`;
};

function timeText(seconds: number): string {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const write = (event: object): void => print(JSON.stringify(event));
