// itemsFor(): the conversation's items for one agent's model. The agent's own items are unchanged; other agents' items
// become text.
import type { AgentEvent, NumberedEvent } from "../core/event.ts";
import {
  isFunctionCall,
  isMessage,
  toText,
  type FunctionCall,
  type FunctionCallOutput,
  type Item,
} from "../core/model.ts";
import type { View } from "../core/conversation.ts";
import { transferTool } from "./transfer.ts";

/** Selects the part of the conversation that an agent sees. */
export interface Sight {
  agent: string;
  /** The branch of a `parallel` in which the agent runs, if any. */
  branch: string | undefined;
  /** For an agent used as a tool: its path and its request. It sees only the request and the events below the path. */
  alone: { path: string; request: Item[] } | undefined;
}

/** The parts of a conversation that models see. */
interface Seen {
  /** The events of this turn. */
  readonly steps: readonly NumberedEvent[];
  view<V extends View>(key: string, create: () => V): Promise<V>;
}

/** Returns the items for a model. The caller may change the list, but not the items. */
export async function itemsFor(conversation: Seen, sight: Sight): Promise<Item[]> {
  const { agent, branch, alone } = sight;
  const { steps } = conversation;
  if (alone) return updatePart(steps, sight, askedAt(steps, alone.path)).items();
  const whole = await conversation.view(agent, () => createSight(agent));
  return branch === undefined ? whole.items() : [...whole.itemsBefore(), ...updatePart(steps, sight, 0).items()];
}

/** Returns the ids of all calls in a conversation that waited for a client. */
export async function clientCallIds(conversation: Seen, { agent, alone }: Sight): Promise<ReadonlySet<string>> {
  // An agent used as a tool cannot ask the client.
  if (alone) return new Set();
  return (await conversation.view(agent, () => createSight(agent))).clientCalls;
}

/** Collects the items for one agent that sees the whole conversation. */
function createSight(agent: string) {
  const transcript = createTranscript(agent);
  const clientCalls = new Set<string>();
  /** The number of items before the current turn. */
  let before = 0;
  return {
    add(event: NumberedEvent): void {
      if (event.type === "invocation.began") {
        transcript.end();
        before = transcript.items.length;
        transcript.begin(event.items);
      }
      if (event.type === "client.answered") transcript.say(event.items);
      if (event.type === "tools.answered") for (const { call_id } of event.waiting ?? []) clientCalls.add(call_id);
      // Skips agents used as tools, whose paths contain "#". Their answer is in the conversation, as a call's result.
      if (isByAgent(event) && !event.path.includes("#")) transcript.add(event);
    },
    clientCalls,
    items: transcript.shown,
    itemsBefore: () => transcript.items.slice(0, before),
  };
}

interface Part {
  /** The number of processed events. */
  seen: number;
  add(event: NumberedEvent): void;
  items(): Item[];
}

// Parts are cached by the turn's list of events, which grows. So each step processes only the new events.
const parts = new WeakMap<readonly NumberedEvent[], Map<string, Part>>();

/**
 * Returns this turn's items for an agent that does not see the whole turn. While a `parallel` runs, its agents do not
 * see each other. An agent used as a tool sees only its own events and the events of agents inside it.
 */
function updatePart(steps: readonly NumberedEvent[], { agent, branch, alone }: Sight, from: number): Part {
  let known = parts.get(steps);
  if (!known) parts.set(steps, (known = new Map()));
  const key = `${agent} ${branch ?? ""} ${alone?.path ?? ""}`;
  let part = known.get(key);
  if (!part) known.set(key, (part = createPart(agent, branch, alone, from)));
  for (; part.seen < steps.length; part.seen++) part.add(steps[part.seen] as NumberedEvent);
  return part;
}

function createPart(agent: string, branch: string | undefined, alone: Sight["alone"], from: number): Part {
  const transcript = createTranscript(agent);
  if (alone) transcript.begin(alone.request);
  return {
    seen: from,
    add(event) {
      if (event.type === "invocation.began" && !alone) transcript.begin(event.items);
      if (event.type === "client.answered" && !alone) transcript.say(event.items);
      if (!isByAgent(event) || areSideBySide(event.branch, branch)) return;
      if (alone ? isBelow(event.path, alone.path) : !event.path.includes("#")) transcript.add(event);
    },
    items: transcript.shown,
  };
}

/** Returns the index of the answer that calls an agent as a tool. The agent sees only events after that answer. */
function askedAt(steps: readonly NumberedEvent[], alone: string): number {
  // Compares paths rather than call ids, because some models reuse ids.
  const above = alone.slice(0, alone.lastIndexOf("#"));
  return Math.max(
    0,
    steps.findLastIndex((event) => event.type === "model.answered" && event.path === above),
  );
}

type ByAgent = Extract<AgentEvent, { path: string }> & { version: number };

const isByAgent = (event: NumberedEvent): event is ByAgent => "path" in event;

function isBelow(path: string, above: string): boolean {
  if (!path.startsWith(above)) return false;
  const rest = path.slice(above.length);
  return rest === "" || (/^[/>]/.test(rest) && !rest.includes("#"));
}

/** Returns whether two branches of one invocation are different children of the same run of a `parallel`. */
function areSideBySide(a: string | undefined, b: string | undefined): boolean {
  if (a === undefined || b === undefined || a === b) return false;
  const others = parseForks(b);
  for (const [at, fork] of parseForks(a).entries()) {
    const other = others[at];
    // One branch is inside the other, or they belong to two consecutive `parallel` runs.
    if (other?.parallel !== fork.parallel) return false;
    if (other.child !== fork.child) return true;
  }
  return false;
}

/** Returns the runs of `parallel` around an agent, outermost first, each with the child that contains the agent. */
function parseForks(branch: string): { parallel: string; child: string }[] {
  const forks: { parallel: string; child: string }[] = [];
  let rest = branch;
  // A branch consists of parts `PATH.CHILD`, joined by "/". Paths may contain dots too (`2.critic` in a loop). A dot is
  // followed by a child only if the branch then ends, or continues with the path of that child.
  for (let dot = rest.indexOf("."); dot >= 0; dot = rest.indexOf(".", dot + 1)) {
    const parallel = rest.slice(0, dot);
    const [child = ""] = /^[^/.]*/.exec(rest.slice(dot + 1)) ?? [];
    const end = dot + 1 + child.length;
    if (end < rest.length && !rest.startsWith(`/${parallel}/${child}`, end)) continue;
    forks.push({ parallel, child });
    rest = rest.slice(end + 1);
    dot = -1;
  }
  return forks;
}

/** Collects items from events for one agent. */
function createTranscript(agent: string) {
  const items: Item[] = [];
  /** Calls without a result, by the path of the agent that made them. A call id alone may not be unique. */
  const open = new Map<string, FunctionCall[]>();
  /** The paths of this agent's own open calls. */
  const own = new Set<string>();
  /** Other agents' items, held back while this agent's calls are open. Results must directly follow their calls. */
  let held: Item[] = [];
  /** The position and length of the user's message in `items`. */
  let message = { at: 0, length: 0 };
  /** The path of the run that transfers the conversation to this agent. */
  let transferring: string | undefined;

  function release(path: string): void {
    open.delete(path);
    own.delete(path);
    if (own.size > 0) return;
    items.push(...held);
    held = [];
  }

  /**
   * Adds results for an interrupted run's calls, because servers refuse a conversation that has calls without results.
   */
  function cut(path: string): void {
    for (const { call_id } of own.has(path) ? (open.get(path) ?? []) : []) {
      const output = "The run was cut short. Whether this call took effect is not known.";
      items.push({ type: "function_call_output", call_id, output });
    }
    release(path);
  }

  /** Moves the user's message to the end, because after a transfer the agent must answer it and not a note. */
  function answerNext(): void {
    const moved = items.splice(message.at, message.length);
    message = { at: items.length, length: moved.length };
    items.push(...moved);
  }

  return {
    items,
    /** Adds the message of a turn. */
    begin(said: readonly Item[]): void {
      message = { at: items.length, length: said.length };
      items.push(...said);
    },
    /** Adds the messages that the client sent with its results. The results are in the agents' own events. */
    say(said: readonly Item[]): void {
      (own.size > 0 ? held : items).push(...said.filter(({ type }) => type !== "function_call_output"));
    },
    shown: (): Item[] => [...items, ...held],
    /** Ends a turn: adds results for calls that have none. */
    end(): void {
      for (const path of open.keys()) cut(path);
    },
    add(event: ByAgent): void {
      const isOwn = event.agent === agent;
      // A run that timed out may leave calls without results.
      if (event.type === "agent.ended") cut(event.path);
      const said = event.items ?? [];
      if (isOwn) items.push(...said);
      else (own.size > 0 ? held : items).push(...said.flatMap((item) => inWords(item, event, open.get(event.path))));
      if (event.type === "tools.answered" && event.waiting) open.set(event.path, event.waiting);
      else if (event.type === "tools.answered") {
        release(event.path);
        transferring = event.transfer === agent ? event.path : undefined;
      }
      if (event.type === "agent.ended" && event.outcome === "transferred" && event.path === transferring) answerNext();
      if (event.type !== "model.answered") return;
      const calls = said.filter(isFunctionCall);
      if (calls.length === 0) return;
      open.set(event.path, calls);
      if (isOwn) own.add(event.path);
    },
  };
}

/**
 * Describes another agent's item as a message to this agent. A transfer is not described, because models do not need
 * it.
 */
function inWords(item: Item, { agent }: ByAgent, calls: FunctionCall[] = []): Item[] {
  const said = (text: string): Item[] => (text === "" ? [] : [{ type: "message", role: "user", content: text }]);
  if (isMessage(item)) {
    const text = toText(item.content);
    return said(text && `[${agent}] said: ${text}`);
  }
  if (isFunctionCall(item)) {
    return item.name === transferTool ? [] : said(`[${agent}] called ${item.name} with ${item.arguments}`);
  }
  if (item.type !== "function_call_output") return [];
  const { call_id, output } = item as FunctionCallOutput;
  const name = calls.find((call) => call.call_id === call_id)?.name ?? "a tool";
  if (name === transferTool) return [];
  return said(`[${agent}] was given by ${name}: ${toText(output)}`);
}
