// reportBlockedCollection(): names the tool and the rollouts that keep the whole collection waiting.
import { isFunctionCall } from "../../core/model.ts";
import type { NumberedEvent } from "../../core/event.ts";
import type { Rollout } from "../../core/rollout.ts";
import { reportBlocked } from "../../io/watchdog.ts";
import { counted, plainLine } from "../plain.ts";

/** Milliseconds. */
const reportAfter = 5_000;
/** The events after which no call of a rollout is running. */
const ends = new Set<string>(["tools.answered", "agent.ended", "agent.failed"]);
/** Maximum number of rollouts to list. */
const mostListed = 5;

export interface BlockedCollection {
  /** Tracks a rollout's calls. */
  event(event: NumberedEvent, rollout: Rollout): void;
  stop(): void;
}

export function reportBlockedCollection(): BlockedCollection {
  const calls = new Map<Rollout, string[]>();

  function running(): string {
    const shown = [...calls].map(
      ([{ task, repeat }, tools]) => `${tools.join(", ")} of task ${task}, repeat ${repeat}`,
    );
    const more = shown.length - mostListed;
    const rest = more > 0 ? `; and ${counted(more, "other rollout")}` : "";
    return shown.length === 0 ? "" : `running: ${shown.slice(0, mostListed).join("; ")}${rest}`;
  }

  const text =
    `no rollout has continued for ${reportAfter / 1000} s: PLACE blocks the process. Make it await, or play it on a queue, ` +
    "whose workers end such rollouts. If it never returns, Ctrl-C has no effect: " +
    `end it with "kill -9 ${process.pid}", and continue with --resume`;
  const { stop } = reportBlocked({ after: reportAfter, text, running });
  return {
    event(event, rollout) {
      if (event.type === "model.answered") {
        const tools = (event.items ?? []).filter(isFunctionCall).map(({ name }) => plainLine(name.slice(0, 100)));
        if (tools.length > 0) calls.set(rollout, [...new Set(tools)]);
      } else if (ends.has(event.type)) calls.delete(rollout);
    },
    stop,
  };
}
