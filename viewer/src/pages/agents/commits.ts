// Describes each event of a conversation as a commit: the callbacks and steps it covers, and the keys it wrote.
import type { Delta } from "../../../../src/core/delta.ts";
import type { NumberedEvent } from "../../../../src/core/event.ts";
import { unescapeKey } from "../../../../src/core/json.ts";

export interface CommitPoint {
  version: number;
  at: number;
  title: string;
  /** The callbacks or steps whose writes this commit stores. */
  of: string;
  /** Keys of the session's own state; `shared` has the keys of shared state. */
  writes: string[];
  shared: string[];
}

export function commitPoint(event: NumberedEvent): CommitPoint {
  const shared = "shared" in event && event.shared ? topLevelKeys(event.shared) : [];
  const writes = event.type === "session.rewound" ? [] : topLevelKeys(event.delta ?? []);
  return { version: event.version, at: event.at, ...describeCommit(event), writes, shared };
}

function describeCommit(event: NumberedEvent): { title: string; of: string } {
  switch (event.type) {
    case "session.opened":
      return { title: "Opened", of: "the initial state" };
    case "invocation.began":
      return { title: "Message", of: event.delta || event.shared ? "what was set with it" : "" };
    case "agent.began":
      return { title: `${event.agent} begins`, of: "beforeAgent" };
    case "model.answered":
      return event.model === undefined
        ? { title: "Answered in the model's place", of: "beforeModel" }
        : { title: `Answer of ${event.model}`, of: "beforeModel, afterModel" };
    case "tools.started":
      return { title: "Calls that touch the world begin", of: "" };
    case "tools.answered":
      return { title: "Results of tools", of: "beforeTool, the tools, afterTool" };
    case "agent.ended":
      return { title: `${event.agent} ends: ${event.outcome}`, of: "afterAgent" };
    case "agent.failed":
      return { title: `${event.agent} failed in ${event.step}`, of: "nothing of that step is stored" };
    case "session.rewound":
      return { title: `Rewound to version ${event.to}`, of: "the whole state, as it was" };
    case "session.closed":
      return { title: "Closed", of: event.reason };
    default:
      return { title: event.type, of: "" };
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
