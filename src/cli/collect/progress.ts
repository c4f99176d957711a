// Shows the progress of a collection: one changing line on a terminal, plain lines elsewhere, or events as JSON.
import type { Rollout, RolloutFailure, TaskRow } from "../../core/rollout.ts";
import { readBranch } from "../../rollout/tree.ts";
import { plainLine, print } from "../plain.ts";

export interface Progress {
  /** Sets the total number of rollouts. */
  plan(total: number): void;
  /** Starts, with the number of existing rows. */
  start(before: number): void;
  /** Reduces the total. */
  fewer(count: number): void;
  row(row: TaskRow, failed: boolean): void;
  retry(rollout: Rollout, failure: RolloutFailure): void;
  say(text: string): void;
  end(): void;
}

const everyOnTerminal = 200;
const everyElsewhere = 10_000;

export function createProgress({ json }: { json: boolean }): Progress {
  let total = 0;
  const isTerminal = process.stderr.isTTY && !json;
  const began = performance.now();
  const failures = new Map<string, number>();
  let [before, done, scored, reward, tokens, calls] = [0, 0, 0, 0, 0, 0];
  let [isBegun, isOver] = [false, false];
  const timer = setInterval(show, isTerminal ? everyOnTerminal : everyElsewhere).unref();

  function line(): string {
    const seconds = (performance.now() - began) / 1000;
    const rate = done / seconds;
    const left = rate > 0 ? (total - before - done) / rate : Infinity;
    const failed = [...failures].map(([kind, count]) => `${kind} ${count}`).join(", ");
    const parts = [
      `${before + done} of ${total}`,
      `${rate.toFixed(1)}/s`,
      scored > 0 ? `mean reward ${(reward / scored).toFixed(3)}` : undefined,
      failed && `failed: ${failed}`,
      `${calls} tool calls`,
      `${tokens} tokens`,
      Number.isFinite(left) && left > 0 ? `${Math.ceil(left)} s left` : undefined,
    ];
    return parts.filter(Boolean).join(" · ");
  }

  function show(): void {
    if (json || isOver || !isBegun) return;
    if (!isTerminal) process.stderr.write(`${line()}\n`);
    else process.stderr.write(`\r\u001B[2K${line().slice(0, Math.max(20, (process.stderr.columns || 80) - 1))}`);
  }

  return {
    plan(planned) {
      total = planned;
    },
    start(there) {
      before = there;
      isBegun = true;
      if (json) write({ type: "started", total, before });
    },
    fewer(count) {
      total -= count;
    },
    row(row, failed) {
      done++;
      const { usage, output } = Object(row["response"]) as { usage?: unknown; output?: { type?: string }[] };
      tokens += Number((Object(usage) as { total_tokens?: number }).total_tokens ?? 0);
      calls += (output ?? []).filter(({ type }) => type === "function_call").length;
      if (failed) {
        const kind = String(row["failure_kind"]);
        failures.set(kind, (failures.get(kind) ?? 0) + 1);
      } else {
        scored++;
        reward += Number(row["reward"] ?? 0);
      }
      if (!json) return;
      const { _ng_task_index: task, _ng_rollout_index: repeat, reward: given, failure_kind, failure_reason } = row;
      const branch = readBranch(row) || undefined;
      const event = { type: failed ? "failed" : "scored", task, repeat, branch, reward: given };
      write({ ...event, failure_kind, failure_reason });
    },
    retry({ task, repeat, attempt }, { kind, reason }) {
      if (json) write({ type: "retried", task, repeat, attempt, failure_kind: kind, failure_reason: reason });
    },
    say(text) {
      process.stderr.write(`${isTerminal ? "\r\u001B[2K" : ""}${plainLine(text)}\n`);
    },
    end() {
      if (isOver) return;
      // Plain lines stay: the last one shows the end.
      if (isTerminal && isBegun) process.stderr.write("\r\u001B[2K");
      else show();
      clearInterval(timer);
      isOver = true;
    },
  };
}

const write = (event: object): void => print(JSON.stringify(event));
