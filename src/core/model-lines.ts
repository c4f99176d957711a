// modelLines(): finds the main conversation among a harness's exchanges with a model. The others are sub-agents, side
// calls such as titles, and retries.
import { isNameOf } from "./bare-names.ts";
import type { EventOf, NumberedEvent, Outcome } from "./event.ts";
import { equalJson, isObject, parseJson, type Json } from "./json.ts";
import { requestFields, requestItems } from "./model-exchange.ts";
import { isFunctionCall, isMessage, toText, type FunctionCall, type FunctionCallOutput, type Item } from "./model.ts";
import { inForceIn } from "./session.ts";

export type Exchange = EventOf<"model.called"> & { version: number };

type Find = (version: number) => Exchange | undefined;

export interface ModelLines {
  /** The exchanges of the main conversation, in order. */
  main: Exchange[];
  /** The outputs of the last answer's calls. The harness ended, or was stopped, before it sent them to the model. */
  outputs: FunctionCallOutput[];
  /** Another conversation may be the main one. */
  isAmbiguous: boolean;
  /** Exchanges whose request the harness sent again, to continue the main conversation with another answer. */
  retries: Exchange[];
  /** All others: sub-agents and side calls. */
  side: Exchange[];
  /** Returns an earlier exchange. */
  find: Find;
}

/** Returns the events of the newest episode that no rewind has undone. */
function newestEpisode(events: readonly NumberedEvent[]): NumberedEvent[] {
  const inForce = inForceIn(events);
  const start = events.findLastIndex(({ type }) => type === "session.seeded");
  return events.slice(start + 1).filter(({ version }) => inForce(version));
}

const isExchange = (event: NumberedEvent): event is Exchange => event.type === "model.called";

/** Returns the exchanges of the newest episode that no rewind has undone. */
export const exchangesIn = (events: readonly NumberedEvent[]): Exchange[] => newestEpisode(events).filter(isExchange);

/**
 * An exchange continues an earlier exchange if its request contains the answer of that exchange. The main conversation
 * is the conversation whose calls the environment ran. If there is none, it is the first conversation that offers tools,
 * if possible the environment's `tools`. A conversation that starts while another one is running is its sub-agent, even
 * if it ends later. A harness that shortens its history starts again with the same tools and system prompt. Such
 * conversations count as one, and the last one is used. If several are left, the one with the most calls is used.
 *
 * A conversation branches if several exchanges continue the same one. The main branch has the most calls that the
 * environment ran. It is ambiguous if another branch has as many, or has such calls of its own.
 */
export function modelLines(events: readonly NumberedEvent[], tools: readonly string[] = []): ModelLines {
  const episode = newestEpisode(events);
  const exchanges = episode.filter(isExchange);
  const byVersion = new Map(exchanges.map((exchange) => [exchange.version, exchange]));
  const find = (version: number): Exchange | undefined => byVersion.get(version);
  const before = new Map<Exchange, Exchange | undefined>();
  const roots = new Map<Exchange, Exchange>();
  for (const exchange of exchanges) {
    const previous = continuedBy(exchange, find);
    before.set(exchange, previous);
    roots.set(exchange, (previous && roots.get(previous)) ?? exchange);
  }
  const rootOf = (exchange: Exchange): Exchange => roots.get(exchange) as Exchange;
  const starts = [...new Set(roots.values())];
  const offered = new Map(starts.map((root) => [root, toolNames(root, find)]));
  const offersAny = (root: Exchange, wanted?: readonly string[]): boolean =>
    offered.get(root)?.some((name) => wanted?.some((tool) => isNameOf(name, tool)) ?? true) === true;
  /** What tells agents apart: the tools and the system prompt. */
  const agents = new Map(starts.map((root) => [root, [...toolNames(root, find), systemText(root, find)].join("\n")]));
  const sameAgent = (a: Exchange, b: Exchange): boolean => agents.get(a) === agents.get(b);

  const calls = ranIn(episode, exchanges);
  /** The number of calls that the environment ran, in each conversation up to an exchange. */
  const ran = new Map<Exchange | undefined, number>();
  /** The number of such calls in all conversations of the same agent, by its prompt. */
  const ranByAgent = new Map<string | undefined, number>();
  for (const exchange of exchanges) {
    const { length } = exchange.output.filter((item) => isFunctionCall(item) && calls.some((ran) => isOf(ran, item)));
    ran.set(exchange, (ran.get(before.get(exchange)) ?? 0) + length);
    const agent = agents.get(rootOf(exchange));
    ranByAgent.set(agent, (ranByAgent.get(agent) ?? 0) + length);
  }
  const callsUpTo = (exchange: Exchange | undefined): number => ran.get(exchange) ?? 0;
  const callsOf = (root: Exchange): number => ranByAgent.get(agents.get(root)) ?? 0;
  const calling = new Set(exchanges.filter((exchange) => callsUpTo(exchange) > 0).map(rootOf));
  const likely =
    [
      starts.filter((root) => calling.has(root)),
      starts.filter((root) => offersAny(root, tools)),
      starts.filter((root) => offersAny(root)),
    ].find((some) => some.length > 0) ?? starts;
  const own = withoutSubAgents(likely, new Map(exchanges.map((exchange) => [rootOf(exchange), exchange.version])));
  const [chosen] = own.toSorted((a, b) => callsOf(b) - callsOf(a));
  const newest = exchanges.findLast((exchange) => {
    const root = rootOf(exchange);
    return chosen && own.includes(root) && sameAgent(root, chosen);
  });
  const continued = new Set(before.values());
  const ends = exchanges.filter((end) => newest && rootOf(end) === rootOf(newest) && !continued.has(end));
  const keepsTools = (end: Exchange): number =>
    Number(toolNames(end, find).join(" ") === offered.get(rootOf(end))?.join(" "));
  // If several branches ran as many calls, the newest that still offers the tools is the best guess.
  const [last] = ends.toSorted(
    (a, b) => callsUpTo(b) - callsUpTo(a) || keepsTools(b) - keepsTools(a) || b.version - a.version,
  );
  const main: Exchange[] = [];
  for (let at = last; at; at = before.get(at)) main.unshift(at);
  const isMain = new Set(main);
  const digests = new Set(main.map(({ digest }) => digest));
  const isRival = (end: Exchange): boolean => {
    let isRetry = true;
    let at: Exchange | undefined = end;
    for (; at && !isMain.has(at); at = before.get(at)) isRetry &&= digests.has(at.digest);
    return !isRetry && (callsUpTo(end) === callsUpTo(last) || callsUpTo(end) > callsUpTo(at));
  };
  const others = exchanges.filter((exchange) => !isMain.has(exchange));
  // A later conversation with the same tools and system prompt may continue the main one with a shorter history.
  const mayContinue = (root: Exchange): boolean =>
    last !== undefined && root.version > last.version && sameAgent(root, rootOf(last));
  return {
    main,
    outputs: outputsAfter(last, calls),
    isAmbiguous: new Set(likely.map(({ digest }) => digest)).size > 1 || starts.some(mayContinue) || ends.some(isRival),
    retries: others.filter(({ digest }) => digests.has(digest)),
    side: others.filter(({ digest }) => !digests.has(digest)),
    find,
  };
}

/**
 * Returns the conversations that did not start while an earlier one was running, after its first answer. `lasts`: the
 * version of each conversation's last exchange.
 */
function withoutSubAgents(roots: readonly Exchange[], lasts: ReadonlyMap<Exchange, number>): Exchange[] {
  const own: Exchange[] = [];
  for (const root of roots) {
    const { version, at, began = at } = root;
    if (!own.some((other) => began >= other.at && version < (lasts.get(other) ?? 0))) own.push(root);
  }
  return own;
}

interface Ran {
  /** The id of the model's call. Undefined if the harness sent no id, or one of its own. */
  id: string | undefined;
  version: number;
  tool: string;
  input: Json;
  outcome?: Outcome;
}

/** Returns the calls that the environment ran. */
function ranIn(events: readonly NumberedEvent[], exchanges: readonly Exchange[]): Ran[] {
  const ids = new Set(
    exchanges.flatMap(({ output }) => output.flatMap((item) => (isFunctionCall(item) ? item.call_id : []))),
  );
  const settled = new Map(
    events.flatMap((event) => (event.type === "tool.settled" ? [[event.call, event.outcome]] : [])),
  );
  return events.flatMap((event): Ran[] => {
    if (event.type !== "tool.called" && event.type !== "tool.claimed") return [];
    const { call, version, tool, input } = event;
    const outcome = event.type === "tool.called" ? event.outcome : settled.get(event.call);
    const id = call !== undefined && ids.has(call) ? call : undefined;
    return [{ id, version, tool, input, ...(outcome && { outcome }) }];
  });
}

/** Returns whether the environment ran a model's call. Calls without the model's id are compared by tool and input. */
const isOf = ({ id, tool, input }: Ran, { call_id, name, arguments: given }: FunctionCall): boolean =>
  id === undefined ? isNameOf(name, tool) && equalJson(input, parseJson(given) ?? null) : id === call_id;

/** Returns the outputs of an answer's calls that the environment ran. */
function outputsAfter(last: Exchange | undefined, calls: readonly Ran[]): FunctionCallOutput[] {
  const used = new Set<Ran>();
  return (last?.output ?? []).flatMap((item) => {
    if (!last || !isFunctionCall(item)) return [];
    const { call_id } = item;
    const found = calls.find(
      (ran) => isOf(ran, item) && (ran.id !== undefined || (ran.version > last.version && !used.has(ran))),
    );
    if (!found?.outcome) return [];
    used.add(found);
    const { outcome } = found;
    const output = outcome.ok ? outcome.output : outcome.error.message;
    const text = typeof output === "string" ? output : JSON.stringify(output);
    return [{ type: "function_call_output" as const, call_id, output: text }];
  });
}

/** Returns the earlier exchange that a request continues: the request contains its answer, at least in part. */
function continuedBy({ after }: Exchange, find: Find): Exchange | undefined {
  for (let place = after; place;) {
    const found = find(place.version);
    if (!found) return undefined;
    if (place.items > (found.after?.items ?? 0) + found.input.length) return found;
    place = found.after;
  }
  return undefined;
}

function toolNames(exchange: Exchange, find: Find): string[] {
  const { tools } = requestFields(exchange, find);
  const names = Array.isArray(tools) ? tools.map((tool) => (isObject(tool) ? String(tool["name"]) : "")) : [];
  return names.toSorted();
}

function systemText(exchange: Exchange, find: Find): string {
  const { instructions = "" } = requestFields(exchange, find);
  const messages = requestItems(exchange, find).filter(isMessage);
  const system = messages.filter(({ role }) => role === "system" || role === "developer");
  return [String(instructions), ...system.map(({ content }) => toText(content))].join("\n");
}

/** Returns the main conversation: the items of its first request, and all items after them. */
export function lineItems({ main, outputs, find }: ModelLines): { input: Item[]; output: Item[] } {
  const [first, last] = [main[0], main.at(-1)];
  if (!first || !last) return { input: [], output: [] };
  const input = requestItems(first, find);
  return { input, output: [...requestItems(last, find).slice(input.length), ...last.output, ...outputs] };
}
