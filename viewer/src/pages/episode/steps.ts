// Builds a transcript as a list of steps: messages, calls and results, and other events of the session.
import { callKey, type EventOf, type NumberedEvent, type Outcome } from "../../../../src/core/event.ts";
import type { Json } from "../../../../src/core/json.ts";
import {
  isFunctionCall,
  isMessage,
  toText,
  type Content,
  type FunctionCallOutput,
  type Item,
} from "../../../../src/core/model.ts";
import type { TaskRow } from "../../../../src/core/rollout.ts";
import { readConversation } from "../../../../src/rollout/conversation.ts";
import { createCallFinder } from "../../../../src/rollout/episode-log.ts";
import { inForceIn } from "../../../../src/core/session.ts";
import { titleOf } from "./event-kinds.ts";

interface AnyStep {
  /** The version of the step, if the log has it. */
  version?: number;
  /** A later rewind undid this step. */
  isUndone?: true;
}

export type Step = AnyStep &
  (
    | { type: "said"; who: string; text: string }
    | { type: "thought"; text: string }
    /**
     * Without output or error the call is running or was interrupted. `input` and `output` are strings if a model wrote
     * them.
     */
    | { type: "called"; tool: string; input: Json; output?: Json; error?: { code: string; message: string } }
    | { type: "verdict"; reward: number; judged: number; details: { [name: string]: Json } }
    /** Any other event, in words. */
    | {
        type: "note";
        text: string;
        details?: Json;
        tone?: "bad" | "warn";
        parent?: { session: string; version: number };
      }
    | { type: "other"; item: Json }
  );

/** `row` is undefined for a session without a run. If it was verified, its log may still contain the conversation. */
export function buildSteps(row: TaskRow | undefined, events: readonly NumberedEvent[]): Step[] {
  const { steps, linked } = conversationSteps(row ?? rowFromLog(events), events);
  const inForce = inForceIn(events);
  const claims = collectClaims(events);
  const rest = events.filter(({ version }) => !linked.has(version)).flatMap((event) => eventToSteps(event, claims));
  const happened = mergeSteps(steps, rest, events).map((step): Step =>
    step.version !== undefined && !inForce(step.version) ? { ...step, isUndone: true } : step,
  );
  return [...happened, ...failureSteps(row ?? {})];
}

/** Why there is no reward. It is the last step, even if the log has later events. */
function failureSteps({ failure_kind: kind, failure_reason: reason }: TaskRow): Step[] {
  if (typeof kind !== "string" || kind === "") return [];
  const why = typeof reason === "string" && reason !== "" ? `: ${reason}` : "";
  return [{ type: "note", text: `failed (${kind})${why}`, tone: "bad" }];
}

/** Why the model was stopped, if it did not end by itself. */
function stopSteps({ stopped }: TaskRow): Step[] {
  if (typeof stopped !== "string" || stopped === "") return [];
  const why = stopped === "empty" ? "the model answered nothing" : `the limit of ${stopped} was reached`;
  return [{ type: "note", text: `stopped here: ${why}`, tone: "warn" }];
}

/** A verdict records the agent's response, so the log of a verified session contains the conversation. */
function rowFromLog(events: readonly NumberedEvent[]): TaskRow {
  const found = events.findLast(
    (event): event is EventOf<"session.verified"> & NumberedEvent =>
      event.type === "session.verified" && event.response !== undefined,
  );
  return found ? { response: found.response as Json } : {};
}

function conversationSteps(row: TaskRow, events: readonly NumberedEvent[]): { steps: Step[]; linked: Set<number> } {
  const { instructions, input, output } = readConversation(row);
  const find = createCallFinder([...events]);
  const linked = new Set<number>();
  const open = new Map<string, Extract<Step, { type: "called" }>>();
  const steps: Step[] = instructions === undefined ? [] : [{ type: "said", who: "system", text: instructions }];
  for (const item of [...input, ...output]) {
    if (isFunctionCall(item)) {
      const step: Step = { type: "called", tool: item.name, input: item.arguments };
      const event = find(item.call_id, item.name);
      if (event) {
        linked.add(event.version);
        step.version = event.version;
        Object.assign(step, outcomeFields(event.outcome));
      }
      open.set(item.call_id, step);
      steps.push(step);
    } else if (item.type === "function_call_output") {
      const { call_id: id, output: given } = item as FunctionCallOutput;
      const step = open.get(id);
      // The transcript shows the output that the model read, even if the log has another one.
      if (step && step.error === undefined) step.output = contentText(given);
      else if (!step) steps.push({ type: "other", item: item as unknown as Json });
    } else steps.push(itemToStep(item));
  }
  return { steps: [...steps, ...stopSteps(row)], linked };
}

function itemToStep(item: Item): Step {
  if (isMessage(item)) return { type: "said", who: item.role, text: contentText(item.content) };
  if (item.type !== "reasoning") return { type: "other", item: item as unknown as Json };
  const parts = [item["summary"], item["content"]];
  const text = parts.flatMap((part) => (Array.isArray(part) ? toText(part as Content[]) : [])).join("\n");
  return { type: "thought", text: text.trim() };
}

/** Joins the text parts; a part without text becomes its type in brackets. */
function contentText(content: string | Content[]): string {
  if (typeof content === "string") return content;
  const texts = content.map((part) => {
    const text: unknown = part?.text ?? part?.["refusal"];
    return typeof text === "string" ? text : `[${String(part?.type)}]`;
  });
  return texts.join("");
}

const outcomeFields = (outcome: Outcome): { output: Json } | { error: { code: string; message: string } } =>
  outcome.ok ? { output: outcome.output } : { error: outcome.error };

/** Makes a step from an event without an item in the conversation. */
function eventToSteps(event: NumberedEvent, claims: Claims): Step[] {
  const { version } = event;
  switch (event.type) {
    case "tool.called":
      return [{ type: "called", version, tool: event.tool, input: event.input, ...outcomeFields(event.outcome) }];
    case "tool.settled": {
      const input = claims.get(callKey(event.episode, event.call))?.input ?? {};
      return [{ type: "called", version, tool: event.tool, input, ...outcomeFields(event.outcome) }];
    }
    case "tool.claimed": {
      // Once the call is settled, the step of its result shows it.
      const { isSettled } = claims.get(callKey(event.episode, event.call)) ?? {};
      return isSettled ? [] : [{ type: "called", version, tool: event.tool, input: event.input }];
    }
    case "session.verified": {
      const { reward, ...details } = event.verdict;
      return [{ type: "verdict", version, reward, judged: event.judged, details }];
    }
    case "session.seeded":
      return [{ type: "note", version, text: titleOf(event), details: event.task }];
    case "session.opened":
      return [{ type: "note", version, text: titleOf(event), ...(event.parent && { parent: event.parent }) }];
    case "agent.failed":
      return [{ type: "note", version, text: `${titleOf(event)}: ${event.error.message}`, tone: "bad" }];
    case "invocation.began":
    case "model.answered":
      return event.items.map((item) => ({ ...itemToStep(item), version }));
    default:
      return [{ type: "note", version, text: titleOf(event) }];
  }
}

/** External calls: one event has the input, another the outcome. */
type Claims = Map<string, { input: Json; isSettled: boolean }>;

function collectClaims(events: readonly NumberedEvent[]): Claims {
  const claims: Claims = new Map();
  for (const event of events) {
    if (event.type === "tool.claimed") {
      claims.set(callKey(event.episode, event.call), { input: event.input, isSettled: false });
    } else if (event.type === "tool.settled") {
      const claim = claims.get(callKey(event.episode, event.call));
      if (claim) claim.isSettled = true;
    }
  }
  return claims;
}

/**
 * Merges all steps in the order of their versions. A message has no version, so it follows its predecessor in the
 * conversation.
 * The first messages of an episode follow its seed.
 */
function mergeSteps(said: Step[], rest: Step[], events: readonly NumberedEvent[]): Step[] {
  const first = said.find(({ version }) => version !== undefined)?.version ?? Infinity;
  const seed = events.findLast(({ type, version }) => isStart(type) && version < first);
  let newest = seed?.version ?? 0;
  const placed = said.map((step) => {
    newest = Math.max(newest, step.version ?? 0);
    return { step, place: step.version ?? newest + 0.5 };
  });
  const others = rest.map((step) => ({ step, place: step.version ?? 0 }));
  return [...placed, ...others].sort((a, b) => a.place - b.place).map(({ step }) => step);
}

const isStart = (type: NumberedEvent["type"]): boolean => type === "session.opened" || type === "session.seeded";
