// Describes each event of a conversation as a commit: its title, and the keys it wrote.
import type { Delta } from "../../../../src/core/delta.ts";
import type { NumberedEvent } from "../../../../src/core/event.ts";
import { unescapeKey } from "../../../../src/core/json.ts";

export interface CommitPoint {
  version: number;
  at: number;
  title: string;
  /** A remark, or "". The log records writes, not the callbacks that ran. */
  note: string;
  /** Keys of the session's own state; `shared` has the keys of shared state. */
  writes: string[];
  shared: string[];
}

export function commitPoint(event: NumberedEvent): CommitPoint {
  const shared = "shared" in event && event.shared ? topLevelKeys(event.shared) : [];
  const writes = event.type === "session.rewound" ? [] : topLevelKeys(event.delta ?? []);
  return { version: event.version, at: event.at, ...describeCommit(event), writes, shared };
}

function describeCommit(event: NumberedEvent): { title: string; note: string } {
  switch (event.type) {
    case "session.opened":
      return { title: "Opened", note: "" };
    case "invocation.began":
      return { title: "User message", note: "" };
    case "client.answered":
      return { title: "Results from the client", note: "" };
    case "agent.began":
      return { title: `${event.agent} started`, note: "" };
    case "model.answered":
      return { title: event.model === undefined ? "Answered by a callback" : `Answer from ${event.model}`, note: "" };
    case "tools.started":
      return { title: "External tool calls started", note: "" };
    case "tools.answered":
      return { title: "Tool outputs", note: "" };
    case "agent.ended":
      return { title: `${event.agent} ended: ${event.outcome}`, note: "" };
    case "agent.failed":
      return { title: `${event.agent} failed in ${event.step}`, note: "nothing from that step was stored" };
    case "session.rewound":
      return { title: `Rewound to version ${event.to}`, note: "restored the session's own state" };
    case "session.closed":
      return { title: "Closed", note: event.reason };
    default:
      return { title: event.type, note: "" };
  }
}

/** The top-level keys that a delta changes, without duplicates. */
function topLevelKeys(delta: Delta): string[] {
  const keys = delta.flatMap((operation) => {
    if (operation.path !== "") return [unescapeKey(operation.path.split("/")[1] ?? "")];
    const value = operation.op === "remove" ? null : operation.value;
    return typeof value === "object" && value !== null ? Object.keys(value) : [];
  });
  return [...new Set(keys)];
}
