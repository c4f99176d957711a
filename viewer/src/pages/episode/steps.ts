// Builds a transcript as a list of steps: messages, calls and results, and other events of the session.
import type { EventOf, NumberedEvent, Outcome, Thrown } from "../../../../src/core/event.ts";
import { callKey } from "../../../../src/core/event-key.ts";
import type { Json } from "../../../../src/core/json.ts";
import {
  isFunctionCall,
  isMessage,
  readableText,
  thoughtText,
  type FunctionCallOutput,
  type Item,
} from "../../../../src/core/model.ts";
import { requestFields, requestItems } from "../../../../src/core/model-exchange.ts";
import { lineItems, modelLines, type ModelLines } from "../../../../src/core/model-lines.ts";
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
  /** The number of the model's answer that the step belongs to, from 1. */
  turn?: number;
  /** When the step was committed, in milliseconds since 1970. */
  at?: number;
}

export type Step = AnyStep &
  (
    | { type: "said"; who: string; text: string }
    | { type: "thought"; text: string }
    /**
     * Without output or error the call is running or was interrupted. `input` and `output` are strings if a model wrote
     * them.
     */
    | {
        type: "called";
        tool: string;
        input: Json;
        output?: Json;
        error?: { code: string; message: string };
        /** The error that the tool's code threw. The model does not read it. */
        thrown?: Thrown;
        /** How long the tool ran, in seconds. */
        seconds?: number;
        /** Its position among the calls of one answer, if there are several. */
        parallel?: { number: number; of: number };
      }
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

/** `row` is undefined for a session without a run. The log of a verified session may still contain the conversation. */
export function buildSteps(row: TaskRow | undefined, events: readonly NumberedEvent[]): Step[] {
  const lines = modelLines(events, row && readConversation(row).tools.map(({ name }) => String(name)));
  const { steps, linked } = conversationSteps(row ?? rowFromExchanges(lines) ?? rowFromLog(events), events, lines);
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
  const why = stopped === "empty" ? "the model's answer was empty" : `the ${stopped} limit was reached`;
  return [{ type: "note", text: `stopped: ${why}`, tone: "warn" }];
}

/** A verdict records the agent's response, so the log of a verified session contains the conversation. */
function rowFromLog(events: readonly NumberedEvent[]): TaskRow {
  const found = events.findLast(
    (event): event is EventOf<"session.verified"> & NumberedEvent =>
      event.type === "session.verified" && event.response !== undefined,
  );
  return found ? { response: found.response as Json } : {};
}

type OutcomeFields = Pick<CallStep, "output" | "error" | "thrown">;
type CallStep = Extract<Step, { type: "called" }>;

/** The main conversation of a harness, if one plays the session. */
function rowFromExchanges(lines: ModelLines): TaskRow | undefined {
  const [first] = lines.main;
  if (!first) return undefined;
  const { input, output } = lineItems(lines);
  const request = { ...requestFields(first, lines.find), input: input as unknown as Json };
  return { responses_create_params: request, response: { output: output as unknown as Json } };
}

/** The version and time of each item of a model's answer, by its index in the conversation. */
function placeAnswers({ main, find }: ModelLines): Map<number, { version: number; at: number }> {
  const places = new Map<number, { version: number; at: number }>();
  for (const exchange of main) {
    const start = requestItems(exchange, find).length;
    exchange.output.forEach((_, at) => places.set(start + at, { version: exchange.version, at: exchange.at }));
  }
  return places;
}

function conversationSteps(
  row: TaskRow,
  events: readonly NumberedEvent[],
  lines: ModelLines,
): { steps: Step[]; linked: Set<number> } {
  const { instructions, input, output } = readConversation(row);
  const find = createCallFinder([...events]);
  const places = placeAnswers(lines);
  const linked = new Set(lines.main.map(({ version }) => version));
  const open = new Map<string, CallStep>();
  const steps: Step[] = instructions === undefined ? [] : [{ type: "said", who: "system", text: instructions }];
  const turnOf = numberTurns(input.length, output);
  for (const [at, item] of [...input, ...output].entries()) {
    const turn = turnOf(at);
    if (isFunctionCall(item)) {
      const step: CallStep = { type: "called", tool: item.name, input: item.arguments, ...turn };
      const event = find(item.call_id, item.name);
      if (event) {
        linked.add(event.version);
        Object.assign(step, { version: event.version, at: event.at }, outcomeFields(event), timeFields(event));
      }
      open.set(item.call_id, step);
      steps.push(step);
    } else if (item.type === "function_call_output") {
      const { call_id: id, output: given } = item as FunctionCallOutput;
      const step = open.get(id);
      // The transcript shows the output that the model read, even if the log has another output.
      if (step && step.error === undefined) step.output = readableText(given);
      else if (!step) steps.push({ type: "other", item: item as unknown as Json });
    } else steps.push({ ...itemToStep(item), ...turn, ...places.get(at) });
  }
  numberParallel([...open.values()]);
  return { steps: [...steps, ...stopSteps(row)], linked };
}

/** Numbers the model's answers: each starts after the input or after the results of the answer before. */
function numberTurns(inputs: number, output: Item[]): (at: number) => { turn: number } | undefined {
  const turns: number[] = [];
  let turn = 0;
  output.forEach((item, at) => {
    const isResult = item.type.endsWith("_output") || (isMessage(item) && item.role !== "assistant");
    const before = turns[at - 1];
    if (!isResult && (before === undefined || before === 0)) turn++;
    turns.push(isResult ? 0 : turn);
  });
  return (at) => {
    const found = turns[at - inputs];
    return found === undefined || found === 0 ? undefined : { turn: found };
  };
}

function numberParallel(calls: CallStep[]): void {
  const byTurn = new Map<number, CallStep[]>();
  for (const call of calls) {
    if (call.turn !== undefined) byTurn.set(call.turn, [...(byTurn.get(call.turn) ?? []), call]);
  }
  for (const together of byTurn.values()) {
    if (together.length < 2) continue;
    together.forEach((call, at) => (call.parallel = { number: at + 1, of: together.length }));
  }
}

/** How long a tool ran; {} if the log does not say. */
const timeFields = (event: { at: number; began?: number }): { seconds?: number } =>
  event.began === undefined ? {} : { seconds: (event.at - event.began) / 1000 };

function itemToStep(item: Item): Step {
  if (isMessage(item)) return { type: "said", who: item.role, text: readableText(item.content) };
  if (item.type !== "reasoning") return { type: "other", item: item as unknown as Json };
  return { type: "thought", text: thoughtText(item).trim() };
}

/** The output or the error of a call. */
const outcomeFields = ({ outcome, thrown }: { outcome: Outcome; thrown?: Thrown }): OutcomeFields =>
  outcome.ok ? { output: outcome.output } : { error: outcome.error, ...(thrown && { thrown }) };

/** Makes a step from an event without an item in the conversation. */
function eventToSteps(event: NumberedEvent, claims: Claims): Step[] {
  const { version, at } = event;
  switch (event.type) {
    case "tool.called":
      return [
        {
          type: "called",
          version,
          at,
          tool: event.tool,
          input: event.input,
          ...outcomeFields(event),
          ...timeFields(event),
        },
      ];
    case "tool.settled": {
      const input = claims.get(callKey(event.episode, event.call))?.input ?? {};
      return [{ type: "called", version, at, tool: event.tool, input, ...outcomeFields(event) }];
    }
    case "tool.claimed": {
      // Once the call is settled, the step of its result shows it.
      const { isSettled } = claims.get(callKey(event.episode, event.call)) ?? {};
      return isSettled ? [] : [{ type: "called", version, at, tool: event.tool, input: event.input }];
    }
    case "session.verified": {
      if (event.refused) return [{ type: "note", version, at, text: titleOf(event), details: event.verdict["reason"] }];
      const { reward, ...details } = event.verdict;
      return [{ type: "verdict", version, at, reward, judged: event.judged, details }];
    }
    case "session.seeded":
      return [{ type: "note", version, at, text: titleOf(event), details: event.task }];
    case "session.opened":
      return [{ type: "note", version, at, text: titleOf(event), ...(event.parent && { parent: event.parent }) }];
    case "agent.failed":
    case "verify.failed":
      return [{ type: "note", version, at, text: `${titleOf(event)}: ${event.error.message}`, tone: "bad" }];
    case "model.called": {
      // The exchanges of the main conversation are messages and calls, so only the harness's other exchanges get here.
      const text = `a side call or a retry of the harness: ${titleOf(event)}`;
      return [{ type: "note", version, at, text, details: event.output as unknown as Json }];
    }
    case "invocation.began":
    case "model.answered":
      return event.items.map((item) => ({ ...itemToStep(item), version, at }));
    default:
      return [{ type: "note", version, at, text: titleOf(event) }];
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
