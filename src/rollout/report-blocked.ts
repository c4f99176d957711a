// reportBlockedCollection(): names the tool and the rollouts that keep the whole collection waiting.
import { isFunctionCall } from "../core/model.ts";
import type { NumberedEvent } from "../core/event.ts";
import type { Rollout } from "../core/rollout.ts";
import { reportBlocked } from "../io/watchdog.ts";
import { counted, plainLine } from "../io/plain.ts";

/** Milliseconds without progress before a report. */
const reportAfter = 5_000;
/** The events after which no call of a rollout is running. */
const ends = new Set<string>(["tools.answered", "agent.ended", "agent.failed"]);
/** Maximum number of rollouts to list. */
const mostListed = 5;

export function reportBlockedCollection() {
  const calls = new Map<Rollout, string[]>();

  function running(): string {
    const shown = [...calls].map(
      ([{ task, repeat }, tools]) => `${tools.join(", ")} in task ${task}, repeat ${repeat}`,
    );
    const more = shown.length - mostListed;
    const rest = more > 0 ? `; and ${counted(more, "other rollout")}` : "";
    return shown.length === 0 ? "" : `running: ${shown.slice(0, mostListed).join("; ")}${rest}`;
  }

  const text =
    `no rollout made progress for ${reportAfter / 1000} s: PLACE blocks the process. Make this code asynchronous, or run it on a queue, ` +
    "whose workers end blocked rollouts. If the code never returns, Ctrl-C has no effect: " +
    `run "kill -9 ${process.pid}", then continue with --resume`;
  const { stop } = reportBlocked({ after: reportAfter, text, running });
  return {
    event(event: NumberedEvent, rollout: Rollout): void {
      if (event.type === "model.answered") {
        const tools = (event.items ?? []).filter(isFunctionCall).map(({ name }) => plainLine(name.slice(0, 100)));
        if (tools.length > 0) calls.set(rollout, [...new Set(tools)]);
      } else if (ends.has(event.type)) calls.delete(rollout);
    },
    stop,
  };
}
