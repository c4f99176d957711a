// Builds ADK's traces from a conversation's log: one span for each turn, agent, model answer and tool call.
import { hash } from "node:crypto";
import type { EventOf, NumberedEvent } from "../../core/event.ts";
import { isFunctionCall, type FunctionCall } from "../../core/model.ts";
import { eventId } from "./events.ts";

export interface Span {
  name: string;
  /** In nanoseconds since 1970. */
  start_time: number;
  end_time: number;
  trace_id: string;
  span_id: string;
  parent_span_id: string | null;
  attributes: { [name: string]: string | number };
}

type Numbered<Type extends NumberedEvent["type"]> = EventOf<Type> & { version: number };

/** Returns the spans of all turns, in the order of the log. */
export function toSpans(
  session: string,
  events: readonly NumberedEvent[],
  describe: (agent: string) => string,
): Span[] {
  const turns = new Map<string, NumberedEvent[]>();
  for (const event of events) {
    if (!("invocation" in event)) continue;
    const known = turns.get(event.invocation);
    if (known) known.push(event);
    else turns.set(event.invocation, [event]);
  }
  return [...turns].flatMap(([invocation, steps]) => turnSpans(session, invocation, steps, describe));
}

function turnSpans(
  session: string,
  invocation: string,
  steps: readonly NumberedEvent[],
  describe: (agent: string) => string,
): Span[] {
  const about = {
    "gcp.vertex.agent.session_id": session,
    "gcp.vertex.agent.invocation_id": invocation,
    "gen_ai.conversation.id": session,
  };
  const spanId = (name: string): string => hash("sha256", `${session} ${invocation} ${name}`, "hex").slice(0, 16);
  const span = (id: string, parent: string | null, name: string, from: number, to: number, more: object): Span => ({
    name,
    start_time: from * 1e6,
    end_time: to * 1e6,
    trace_id: hash("sha256", invocation, "hex").slice(0, 32),
    span_id: spanId(id),
    parent_span_id: parent === null ? null : spanId(parent),
    attributes: { ...about, ...more },
  });
  const from = steps[0]?.at ?? 0;
  const spans = [span("turn", null, "invocation", from, steps.at(-1)?.at ?? from, {})];
  const paths = new Map<string, { events: NumberedEvent[]; agent: string }>();
  for (const event of steps) {
    if (!("path" in event)) continue;
    const known = paths.get(event.path) ?? { events: [], agent: event.agent };
    known.events.push(event);
    paths.set(event.path, known);
  }
  for (const [path, { events, agent }] of paths) {
    const outer = [...paths.keys()].filter((other) => path.startsWith(`${other}/`) || path.startsWith(`${other}#`));
    const parent = outer.reduce((longest, other) => (other.length > longest.length ? other : longest), "");
    const [first, last] = [events[0]?.at ?? from, events.at(-1)?.at ?? from];
    const described = {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": agent,
      "gen_ai.agent.description": describe(agent),
    };
    spans.push(
      span(`at ${path}`, parent === "" ? "turn" : `at ${parent}`, `invoke_agent ${agent}`, first, last, described),
    );
    for (const [at, event] of events.entries()) {
      const since = events[at - 1]?.at ?? event.at;
      if (event.type === "model.answered") {
        spans.push(span(`step ${event.version}`, `at ${path}`, "call_llm", since, event.at, answered(session, event)));
      }
      if (event.type !== "tools.answered") continue;
      const asked = events.slice(0, at).findLast(({ type }) => type === "model.answered");
      for (const call of (asked as Numbered<"model.answered"> | undefined)?.items.filter(isFunctionCall) ?? []) {
        const id = `call ${event.version} ${call.call_id}`;
        const ran = called(session, event, call);
        spans.push(span(id, `at ${path}`, `execute_tool ${call.name}`, asked?.at ?? since, event.at, ran));
      }
    }
  }
  return spans;
}

/** Describes a model answer. Its request has only the model's name, because the log does not keep whole requests. */
function answered(session: string, { version, model, usage, items }: Numbered<"model.answered">): object {
  return {
    "gcp.vertex.agent.event_id": eventId(session, version),
    "gcp.vertex.agent.llm_request": JSON.stringify({ model: model ?? "a callback" }),
    "gcp.vertex.agent.llm_response": JSON.stringify({ items, usage }),
    "gen_ai.operation.name": "generate_content",
    "gen_ai.request.model": model ?? "a callback",
    ...(usage && {
      "gen_ai.usage.input_tokens": usage.input_tokens,
      "gen_ai.usage.output_tokens": usage.output_tokens,
    }),
  };
}

function called(session: string, { version, items }: Numbered<"tools.answered">, call: FunctionCall): object {
  const result = items.find((item) => item.type === "function_call_output" && item["call_id"] === call.call_id);
  return {
    "gcp.vertex.agent.event_id": eventId(session, version),
    "gcp.vertex.agent.tool_call_args": call.arguments,
    "gcp.vertex.agent.tool_response": JSON.stringify(result?.["output"] ?? null),
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": call.name,
    "gen_ai.tool.call.id": call.call_id,
  };
}
