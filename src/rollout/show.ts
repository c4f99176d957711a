// Finds a rollout in its file and its log in the store, and builds a transcript: messages, calls and state changes.
import type { Delta } from "../core/delta.ts";
import type { NumberedEvent, Thrown } from "../core/event.ts";
import { ellipsis } from "../core/ellipsis.ts";
import { cannotLoad, invalidOption, messageOf, type HoldfastError } from "../core/errors.ts";
import { equalJson, toFields, unescapeKey, type Json } from "../core/json.ts";
import {
  isFunctionCall,
  isMessage,
  readableText,
  thoughtText,
  type FunctionCallOutput,
  type Item,
} from "../core/model.ts";
import { requestFields, requestItems } from "../core/model-exchange.ts";
import { exchangesIn, modelLines } from "../core/model-lines.ts";
import type { TaskRow } from "../core/rollout.ts";
import { noRollouts } from "./collection-index.ts";
import { finishedRollouts, rolloutIndex, type RolloutIndex } from "./finished.ts";
import { isFailed, isRollout, readReward, readMetrics } from "./row-fields.ts";
import { readConversation } from "./conversation.ts";
import { createCallFinder, logWithParents } from "./episode-log.ts";
import { locateStore, openStoreFor, storeHint } from "./store-location.ts";
import type { OnBad } from "./tasks.ts";

/** The new value of a state key. Without a value, the key was removed. */
export interface Change {
  /** The path to the value, with dots. */
  key: string;
  value?: Json;
}

export type Step =
  | { type: "said"; who: string; text: string }
  | { type: "thought"; text: string }
  | { type: "called"; tool: string; input: string }
  /** A harness's request outside its main conversation. */
  | { type: "aside"; why: "side call" | "retried call"; text: string }
  /** `changes`, and `log` with the lines that the tool logged, need the log of the session. */
  | { type: "answered"; tool: string; output: string; changes?: Change[]; thrown?: Thrown; log?: string[] }
  | { type: "other"; item: Json };

export interface Transcript extends RolloutIndex {
  model: string | undefined;
  session: string | undefined;
  /** The initial state, if the log is available. */
  began: Change[] | undefined;
  steps: Step[];
  reward: number | undefined;
  /** The fields that verify returned in addition to the reward. */
  verdict: TaskRow | undefined;
  stopped: string | undefined;
  failure: { kind: string; reason: string; stack?: string } | undefined;
}

export interface RolloutChoice {
  task?: number | undefined;
  repeat?: number | undefined;
  /** Only failed rollouts. */
  failed?: boolean | undefined;
  /** The rollout with the lowest reward. */
  worst?: boolean | undefined;
}

/** Finds a rollout. If several match, returns the first by task and repeat. */
export async function findRollout(file: string, wanted: RolloutChoice, onBad: OnBad): Promise<TaskRow> {
  let best: { row: TaskRow; key: number[] } | undefined;
  const repeats: number[] = [];
  for await (const { row, failed } of finishedRollouts(file, onBad)) {
    const { task = 0, repeat = 0 } = rolloutIndex(row);
    if (task !== (wanted.task ?? task)) continue;
    repeats.push(repeat);
    const reward = readReward(row);
    if (repeat !== (wanted.repeat ?? repeat) || (wanted.failed && !failed)) continue;
    if (wanted.worst && reward === undefined) continue;
    const key = [wanted.worst ? Number(reward) : 0, task, repeat];
    if (!best || isBefore(key, best.key)) best = { row, key };
  }
  if (best && !isRollout(best.row)) throw noRollouts(file);
  if (best) return best.row;
  throw missing(file, wanted, repeats);
}

function missing(file: string, { task, repeat, failed, worst }: RolloutChoice, repeats: number[]): HoldfastError {
  if (task === undefined && repeats.length === 0) return cannotLoad(`${file} has no rollouts`);
  const ofTask = task === undefined ? "" : ` of task ${task}`;
  const ofRepeat = repeat === undefined ? "" : `${task === undefined ? " with" : ","} repeat ${repeat}`;
  const what = failed ? "failed rollout" : worst ? "rollout with a reward" : "rollout";
  const others = repeats.sort((a, b) => a - b).join(", ");
  const there = task !== undefined && repeats.length > 0 ? `; the repeats of that task are ${others}` : "";
  return invalidOption(`${file} has no ${what}${ofTask}${ofRepeat}${there}`);
}

function isBefore(a: number[], b: number[]): boolean {
  const at = a.findIndex((value, index) => value !== b[index]);
  return at >= 0 && (a[at] as number) < (b[at] as number);
}

/**
 * Reads the log of a rollout's episode. Without it, the transcript lacks only the states, so `note` gets the reason. A
 * failure of the store at `url` is thrown.
 */
export async function readRolloutLog(
  file: string,
  row: TaskRow,
  url: string | undefined,
  note: (text: string) => void,
): Promise<NumberedEvent[] | undefined> {
  const session = row["session_id"];
  const located = locateStore(file);
  if (url === undefined && !located?.isTrusted) {
    note(`states are not shown: ${storeHint(file, located)}`);
    return undefined;
  }
  try {
    const store = await openStoreFor(file, url);
    try {
      const events = typeof session === "string" ? await logWithParents(store, session) : undefined;
      if (!events) note("states are not shown: the store does not have the session");
      return events;
    } finally {
      await store.close();
    }
  } catch (thrown) {
    if (url !== undefined) throw thrown;
    note(
      `states are not shown: cannot read the store ${located?.url}: ${messageOf(thrown)}; name another store with --store`,
    );
    return undefined;
  }
}

/** Builds a transcript. `events`: the episode's log, if available. */
export function buildTranscript(row: TaskRow, events?: NumberedEvent[]): Transcript {
  const { instructions, input, output } = readConversation(row);
  const { failure_kind: kind, failure_reason: reason, failure_stack: stack } = row;
  const { session_id: session, stopped } = row;
  const { model } = toFields(row["response"]);
  const told: Step[] = instructions === undefined ? [] : [{ type: "said", who: "system", text: instructions }];
  return {
    ...rolloutIndex(row),
    model: textIn(model),
    session: textIn(session),
    began: events && initialState(events),
    steps: harnessSteps(row, events) ?? [...told, ...toSteps([...input, ...output], events)],
    reward: readReward(row),
    verdict: verdictIn(events, row),
    stopped: textIn(stopped),
    failure: isFailed(row)
      ? { kind: String(kind), reason: textIn(reason) ?? "", ...(typeof stack === "string" && { stack }) }
      : undefined,
  };
}

/** Maximum length of a harness's system prompt. A longer prompt is shortened. */
const longestSystem = 600;

/** Returns a harness's model calls and tool calls in the order of the log; undefined if the log has no model calls. */
function harnessSteps(row: TaskRow, events: NumberedEvent[] | undefined): Step[] | undefined {
  const exchanges = exchangesIn(events ?? []);
  if (exchanges.length === 0) return undefined;
  const { main, outputs, retries, find } = modelLines(
    events ?? [],
    readConversation(row).tools.map(({ name }) => String(name)),
  );
  const [first] = main;
  const { instructions } = first ? requestFields(first, find) : {};
  const steps: Step[] = [];
  const convert = stepConverter(events);
  if (typeof instructions === "string") steps.push(shortened({ type: "said", who: "system", text: instructions }));
  let known = 0;
  for (const exchange of exchanges) {
    if (main.includes(exchange)) {
      const items = [...requestItems(exchange, find), ...exchange.output];
      steps.push(...items.slice(known).map((item) => shortened(convert(item))));
      known = items.length;
    } else {
      const said = exchange.output
        .map((item) => (isFunctionCall(item) ? `calls ${item.name}` : saidIn(item)))
        .join(" ");
      steps.push({ type: "aside", why: retries.includes(exchange) ? "retried call" : "side call", text: said });
    }
  }
  steps.push(...outputs.map((item) => shortened(convert(item))));
  return steps;
}

/** Shortens the system prompt of a harness. */
function shortened(step: Step): Step {
  const isLong = step.type === "said" && (step.who === "system" || step.who === "developer");
  return isLong ? { ...step, text: ellipsis(step.text, longestSystem) } : step;
}

const saidIn = (item: Item): string => (isMessage(item) ? readableText(item.content) : "");

const toSteps = (items: Item[], events: NumberedEvent[] | undefined): Step[] => items.map(stepConverter(events));

/** Returns a function that turns a conversation's items into steps, one after the other. */
function stepConverter(events: NumberedEvent[] | undefined): (item: Item) => Step {
  const find = events && createCallFinder(events);
  const tools = new Map<string, string>();
  return (item) => {
    if (isMessage(item)) {
      return { type: "said", who: item.role === "assistant" ? "agent" : item.role, text: readableText(item.content) };
    }
    if (isFunctionCall(item)) {
      tools.set(item.call_id, item.name);
      return { type: "called", tool: item.name, input: item.arguments };
    }
    if (item.type === "function_call_output") {
      const { call_id: call, output } = item as FunctionCallOutput;
      const tool = tools.get(call) ?? "tool";
      const { delta = [], thrown, log } = find?.(call, tool) ?? {};
      const answered = { type: "answered" as const, tool, output: readableText(output), ...(log && { log }) };
      return { ...answered, ...(find && { changes: toChanges(delta) }), ...(thrown && { thrown }) };
    }
    if (item.type === "reasoning") return { type: "thought", text: thoughtText(item) };
    return { type: "other", item: item as unknown as Json };
  };
}

/** Returns the initial state of the last episode. A session may have been seeded several times. */
function initialState(events: NumberedEvent[]): Change[] {
  return toChanges(events.findLast(({ type }) => type === "session.seeded")?.delta ?? events[0]?.delta ?? []);
}

/**
 * Returns the fields that verify returned in addition to the reward. For older rows, they come from the recorded
 * verdict that matches the row.
 */
function verdictIn(events: NumberedEvent[] | undefined, row: TaskRow): TaskRow | undefined {
  const metrics = readMetrics(row);
  if (Object.keys(metrics).length > 0) return metrics;
  const verdicts = (events ?? []).flatMap((event) => (event.type === "session.verified" ? [event.verdict] : []));
  const found = verdicts.findLast((verdict) =>
    Object.entries(verdict).every(([name, value]) => equalJson(row[name], value)),
  );
  if (!found) return undefined;
  const { reward: _, ...rest } = found;
  return Object.keys(rest).length > 0 ? rest : undefined;
}

function toChanges(delta: Delta): Change[] {
  return delta.flatMap((operation): Change[] => {
    if (operation.path === "") {
      const state = operation.op === "remove" ? null : operation.value;
      return Object.entries(toFields(state)).map(([key, value]) => ({ key, value }));
    }
    const key = operation.path.slice(1).split("/").map(unescapeKey).join(".");
    return [operation.op === "remove" ? { key } : { key, value: operation.value }];
  });
}

const textIn = (value: Json | undefined): string | undefined => (typeof value === "string" ? value : undefined);
