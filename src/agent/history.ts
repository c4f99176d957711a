// What an agent's model is shown of a conversation: its own items as they are, those of other agents in words.
import type { AgentEvent, NumberedEvent } from "../core/event.ts";
import {
  isFunctionCall,
  isMessage,
  textOf,
  type FunctionCall,
  type FunctionCallOutput,
  type Item,
} from "../core/model.ts";

/** Which part of the conversation an agent sees. */
export interface Sight {
  agent: string;
  /** Where it runs among agents that run side by side. */
  branch: string | undefined;
  /** The path of an agent that is another one's tool: it sees what it was asked, and what was said below it. */
  alone: string | undefined;
}

interface View {
  /** How many events were looked at. */
  seen: number;
  items: Item[];
  /** Calls that have no result yet, by path. */
  open: Map<string, FunctionCall[]>;
  names: Map<string, string>;
}

// Kept with the list of events, which grows: each turn costs what is new, not what there is.
const views = new WeakMap<readonly NumberedEvent[], Map<string, View>>();

/** The items that a model is shown. A list of the caller's own; the items are not. */
export function historyFor(events: readonly NumberedEvent[], sight: Sight): Item[] {
  const { alone } = sight;
  if (alone !== undefined) return aloneIn(events, { ...sight, alone });
  let known = views.get(events);
  if (!known) {
    known = new Map();
    views.set(events, known);
  }
  const key = `${sight.agent} ${sight.branch ?? ""}`;
  let view = known.get(key);
  if (!view) {
    view = newView();
    known.set(key, view);
  }
  for (; view.seen < events.length; view.seen++) add(view, events[view.seen] as NumberedEvent, sight);
  return view.items.slice();
}

/** Not kept: an agent that is a tool is asked once, and all that it sees came after the answer that calls it. */
function aloneIn(events: readonly NumberedEvent[], sight: Sight & { alone: string }): Item[] {
  const view = newView();
  // Not by the id of the call alone: there are models that give the same one again.
  const above = sight.alone.slice(0, sight.alone.lastIndexOf("#"));
  view.seen = Math.max(
    0,
    events.findLastIndex((event) => event.type === "model.answered" && event.path === above),
  );
  for (; view.seen < events.length; view.seen++) add(view, events[view.seen] as NumberedEvent, sight);
  return view.items;
}

const newView = (): View => ({ seen: 0, items: [], open: new Map(), names: new Map() });

function add(view: View, event: NumberedEvent, sight: Sight): void {
  if (event.type === "invocation.began") {
    closeAll(view);
    if (sight.alone === undefined) view.items.push(...event.items);
    return;
  }
  if (!isByAgent(event) || !isSeen(event, sight)) return;
  // A run that was out of time may have left calls without a result.
  if (event.type === "agent.ended" && event.agent === sight.agent) close(view, event.path);
  if (!event.items) return;
  for (const item of event.items) {
    if (isFunctionCall(item)) view.names.set(item.call_id, item.name);
  }
  if (event.agent !== sight.agent) {
    view.items.push(...event.items.flatMap((item) => inWords(item, event.agent, view.names)));
    return;
  }
  view.items.push(...event.items);
  if (event.type === "model.answered") view.open.set(event.path, event.items.filter(isFunctionCall));
  if (event.type === "tools.answered") view.open.delete(event.path);
}

type ByAgent = Extract<AgentEvent, { path: string }> & { version: number };

const isByAgent = (event: NumberedEvent): event is ByAgent => "path" in event;

function closeAll(view: View): void {
  for (const path of Array.from(view.open.keys())) close(view, path);
}

/** Calls of a run that was cut short have no result, and servers refuse such a conversation. */
function close(view: View, path: string): void {
  for (const { call_id } of view.open.get(path) ?? []) {
    const output = "The run was cut short. Whether this call took effect is not known.";
    view.items.push({ type: "function_call_output", call_id, output });
  }
  view.open.delete(path);
}

function isSeen({ path, branch }: ByAgent, sight: Sight): boolean {
  // What was said by an agent that is a tool is for the one that called it, as the result of the call.
  if (sight.alone === undefined ? path.includes("#") : !isBelow(path, sight.alone)) return false;
  return branch === undefined || sight.branch === undefined || isSameLine(branch, sight.branch);
}

function isBelow(path: string, above: string): boolean {
  if (!path.startsWith(above)) return false;
  const rest = path.slice(above.length);
  return rest === "" || (/^[/>]/.test(rest) && !rest.includes("#"));
}

/** Whether one of two branches is the other, or around it. */
function isSameLine(a: string, b: string): boolean {
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  return short === long || long.startsWith(`${short}/`);
}

/** An item of another agent, as something that was said to this one. */
function inWords(item: Item, agent: string, names: ReadonlyMap<string, string>): Item[] {
  const said = (text: string): Item[] => (text === "" ? [] : [{ type: "message", role: "user", content: text }]);
  if (isMessage(item)) {
    const text = textOf(item.content);
    return said(text && `[${agent}] said: ${text}`);
  }
  if (isFunctionCall(item)) return said(`[${agent}] called ${item.name} with ${item.arguments}`);
  if (item.type !== "function_call_output") return [];
  const { call_id, output } = item as FunctionCallOutput;
  return said(`[${agent}] was given by ${names.get(call_id) ?? "a tool"}: ${textOf(output)}`);
}
