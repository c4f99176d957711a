// The questions about the fixtures. Version 0.1 answered them when they were made, and this version must answer the
// same.
import { createHash } from "node:crypto";
import type { Agent, Answer, Item, NumberedEvent, Store } from "holdfast";
import type { Definitions } from "./definitions.ts";
import type { Conversations, Engines, Episodes, TurnStart } from "./open.ts";

/** A version of Holdfast on a store. */
export interface Place {
  engines: Engines;
  store: Store;
  definitions: Definitions;
  /** The external effects so far. */
  effects: string[];
}

export function placeOn(engines: Engines, store: Store, { isChanged = false } = {}): Place {
  const effects: string[] = [];
  const effect = (call: string): void => void effects.push(call);
  return { engines, store, effects, definitions: engines.define({ effect, isChanged }) };
}

export const episodesIn = ({ engines, store, definitions }: Place): Episodes =>
  engines.episodes(store, definitions.ledger);

/** An app's conversations, with its agent. Its name begins with that of the agent. */
export function conversationsIn(place: Place, app: string): { sessions: Conversations; agent: Agent } {
  const { agents } = place.definitions;
  const name = app.split("-")[0];
  const agent = name === "desk" ? agents.desk(episodesIn(place)) : name === "crew" ? agents.crew : agents.office;
  return { sessions: place.engines.conversations(place.store, app), agent };
}

/** The result of an attempt as plain data; of a refusal its code. */
async function attempt<T>(work: () => Promise<T>): Promise<unknown> {
  try {
    return plain(await work());
  } catch (thrown) {
    if (typeof (thrown as { code?: unknown }).code !== "string") throw thrown;
    return { refused: (thrown as { code: string }).code };
  }
}

const plain = (value: unknown): unknown => (value === undefined ? null : JSON.parse(JSON.stringify(value)));

const pick = (value: object, ...keys: string[]): object =>
  Object.fromEntries(Object.entries(value).filter(([key, field]) => keys.includes(key) && field !== undefined));

async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of source) items.push(item);
  return items;
}

/** Stands for a value in the fixtures, where the value itself would be too long. The order of keys does not count. */
function digestOf(value: unknown): string {
  const sorted = (_: string, field: unknown): unknown =>
    typeof field === "object" && field !== null && !Array.isArray(field)
      ? Object.fromEntries(Object.entries(field).sort(([a], [b]) => (a < b ? -1 : 1)))
      : field;
  return createHash("sha256").update(JSON.stringify(value, sorted)).digest("hex").slice(0, 12);
}

const headings = ["session", "version", "opened", "touched", "ended"];

export async function listEpisodes(place: Place): Promise<unknown> {
  const rows = await all(episodesIn(place).list());
  return rows.map((row) => pick(row, ...headings, "environment", "parent"));
}

export async function listConversations(place: Place, app: string): Promise<unknown> {
  return (await all(conversationsIn(place, app).sessions.list())).map((row) => pick(row, ...headings));
}

/** Sessions that their limits ended. Each is in an environment of its own. */
export async function listEnded({ engines, store, definitions }: Place): Promise<unknown[]> {
  const results: unknown[] = [];
  for (const name of ["idle", "age", "capacity"]) {
    const sessions = engines.episodes(store, { ...definitions.ledger, name: `ledger-${name}` });
    const rows = await all(sessions.list());
    results.push(...rows.map((row) => pick(row, "session", "ended")));
    results.push(await attempt(() => sessions.call(`ended-${name}`, "add", { n: 1 })));
  }
  return results;
}

/** Everything that can be read of an episode. */
export async function readEpisode(place: Place, session: string): Promise<Record<string, unknown>> {
  const { engines, store } = place;
  const sessions = episodesIn(place);
  const info = await sessions.info(session);
  const changed = episodesIn(placeOn(engines, store, { isChanged: true }));
  const replayed = await changed.replay(session);
  return {
    info: pick(info, ...headings, "environment", "parent", "episode", "task", "labels"),
    states: await statesOf(sessions, session, info.version),
    state: await sessions.state(session),
    replay: await sessions.replay(session),
    firstDifference: replayed.same ? null : replayed.version,
    rewards: await attempt(() => sessions.rewards(session)),
  };
}

/** Everything that can be read of a conversation. */
export async function readConversation(place: Place, app: string, session: string): Promise<Record<string, unknown>> {
  const { sessions } = conversationsIn(place, app);
  const info = await sessions.info(session);
  // The agent of a replay plays its episodes elsewhere: the store is only read.
  const replayed = async (isChanged: boolean): Promise<number | null> => {
    const { engines } = place;
    const { agent } = conversationsIn(placeOn(engines, engines.newStore(), { isChanged }), app);
    return (await engines.firstDifference(sessions, agent, session)) ?? null;
  };
  return {
    info: pick(info, ...headings, "user"),
    states: await statesOf(sessions, session, info.version),
    state: await sessions.state(session),
    replay: await replayed(false),
    firstDifference: await replayed(true),
  };
}

/** The digest of the state at every version. */
async function statesOf(sessions: Episodes | Conversations, session: string, newest: number): Promise<string[]> {
  const digests: string[] = [];
  for (let version = 1; version <= newest; version++) digests.push(digestOf(await sessions.state(session, version)));
  return digests;
}

export async function eventsOf(place: Place, environment: string, session: string): Promise<NumberedEvent[]> {
  const [, app] = /^agent:(.*)$/.exec(environment) ?? [];
  return all((app === undefined ? episodesIn(place) : conversationsIn(place, app).sessions).events(session));
}

function answerOf(answer: Answer): object {
  const { ok, version, repeated, unseeded } = answer;
  return { ok, version, repeated, unseeded, ...(answer.ok ? { output: answer.output } : { code: answer.error.code }) };
}

/** Sends every recorded call, seed and verify again, each as it was sent. */
export async function repeatEpisode(place: Place, session: string): Promise<unknown[]> {
  const sessions = episodesIn(place);
  const results: unknown[] = [];
  for (const event of await all(sessions.events(session))) {
    if (event.type === "tool.called" || event.type === "tool.claimed") {
      const { call, tool, input, episode } = event;
      if (call === undefined) continue;
      const again = (): Promise<Answer> => sessions.call(session, tool as "add", input as never, { call, episode });
      results.push(await attempt(async () => answerOf(await again())));
    } else if (event.type === "session.seeded" && event.call !== undefined) {
      results.push(await attempt(() => sessions.seed(session, event.task as never, { call: event.call as string })));
    } else if (event.type === "session.verified") {
      results.push(await attempt(() => verifyAgain(place, sessions, session, event)));
    }
  }
  return [...results, { effects: place.effects, version: (await sessions.info(session)).version }];
}

async function verifyAgain(
  { engines }: Place,
  sessions: Episodes,
  session: string,
  { judged: version, task, response }: { judged: number; task?: unknown; response?: unknown },
): Promise<unknown> {
  const options = { version, ...(task !== undefined && { task }), ...(response !== undefined && { response }) };
  return engines.verdict(await sessions.verify(session, options));
}

/** Uses an episode as a returning client would. */
export async function continueEpisode(place: Place, session: string): Promise<unknown[]> {
  const sessions = episodesIn(place);
  const { version } = await sessions.info(session);
  const call = (id: string, tool: "add" | "look" | "gather" | "send", input: object, on = session) =>
    attempt(async () => answerOf(await sessions.call(on, tool, input as never, { call: id })));
  const verify = (on = session) =>
    attempt(async () => place.engines.verdict(await sessions.verify(on, { response: "done" })));
  const child = `${session} child`;
  const results = [
    await call("new-1", "add", { n: 2 }),
    await call("new-1", "add", { n: 2 }),
    await call("new-1", "add", { n: 3 }),
    await call("new-2", "gather", { n: 3 }),
    await call("new-3", "send", { n: 4 }),
    await call("new-3", "send", { n: 4 }),
    await verify(),
    await verify(),
    await attempt(() => sessions.fork(session, { version, session: child }).then((info) => pick(info, "parent"))),
    await call("new-1", "add", { n: 7 }, child),
    await verify(child),
    await attempt(() => sessions.rewind(session, version).then((info) => pick(info, "version"))),
    await call("new-1", "add", { n: 2 }),
    await call("new-4", "look", {}),
    await attempt(() => sessions.seed(session, { start: 5, goal: 6 }, { call: "seed-new", randomSeed: 4 })),
    await attempt(() => sessions.seed(session, { start: 5, goal: 6 }, { call: "seed-new", randomSeed: 4 })),
    await call("new-1", "add", { n: 1 }),
    await verify(),
    await attempt(() => sessions.state(session)),
    await attempt(() => sessions.replay(session)),
    await attempt(() => sessions.close(session)),
    await call("new-1", "add", { n: 1 }),
    await call("new-9", "add", { n: 1 }),
    await attempt(() => sessions.close(session)),
  ];
  return [...results, { effects: place.effects }];
}

const textsIn = (items: Item[]): string[] =>
  items.flatMap((item) => {
    if (item.type === "function_call_output") return [`result ${String(item["output"])}`];
    const content = item["content"];
    return Array.isArray(content) ? content.map((part) => String((part as { text?: unknown }).text)) : [];
  });

/** The state without its keys that are drawn anew in every run. */
function settled(state: Record<string, unknown>): unknown {
  return plain({ ...state, luck: undefined, "environment:ledger": undefined, "environment:ledger:at": undefined });
}

async function turn(
  place: Place,
  app: string,
  session: string,
  start: TurnStart,
): Promise<{ state: unknown; effects: string[] }> {
  const { sessions, agent } = conversationsIn(place, app);
  const said = await attempt(async () => {
    const { outcome, items } = await place.engines.turn(sessions, agent, session, start);
    return { outcome, said: textsIn(items).toSorted() };
  });
  const state = await sessions.state(session);
  return { ...(said as object), state: settled(state), effects: place.effects.splice(0) };
}

/** A message that the agent of an app answers with a call. */
const messageFor = (app: string): string => (app.startsWith("desk") ? "add 1" : "note");

/** Uses a conversation as a returning client would. */
export async function continueConversation(place: Place, app: string, session: string): Promise<unknown[]> {
  const { sessions, agent } = conversationsIn(place, app);
  const { version } = await sessions.info(session);
  const message = messageFor(app);
  const results: unknown[] = [
    await turn(place, app, session, {}),
    await turn(place, app, session, { message }),
    await turn(place, app, session, { message: "send", stateDelta: { topic: "farewell" } }),
  ];
  const undone = await attempt(async () => {
    const { invocation } = await place.engines.turn(sessions, agent, session, { message });
    await place.engines.rewindBefore(sessions, session, invocation);
    return { undone: digestOf(settled(await sessions.state(session))) };
  });
  const saved = await sessions.save(session);
  const copy = `${session} copy`;
  await sessions.restore(saved, copy);
  results.push(undone, digestOf(settled(await sessions.state(copy))), pick(await sessions.info(copy), "user"));
  results.push(await turn(place, app, copy, { message }));
  results.push(await attempt(() => sessions.close(session)));
  results.push(await attempt(() => place.engines.turn(sessions, agent, session, { message })));
  const events = await all(sessions.events(session, { after: version }));
  const types = new Set(events.map(({ type }) => type as string));
  return [...results, { types: [...types].filter((type) => !type.startsWith("turn.")) }];
}

/** The remains of an interrupted episode, and the verbs that work on it. */
export async function cutEpisode(place: Place, session: string): Promise<object> {
  const sessions = episodesIn(place);
  const events = await all(sessions.events(session));
  const newest = events.findLast((event) => event.type === "tool.called" || event.type === "tool.claimed");
  const again = await attempt(async () => {
    if (newest?.type !== "tool.called" && newest?.type !== "tool.claimed") return null;
    const { call, episode, tool, input } = newest;
    if (call === undefined) return null;
    return answerOf(await sessions.call(session, tool as "add", input as never, { call, episode }));
  });
  const added = await attempt(async () => answerOf(await sessions.call(session, "add", { n: 1 }, { call: "cut" })));
  const verified = await attempt(async () => place.engines.verdict(await sessions.verify(session)));
  const state = digestOf(await sessions.state(session));
  const { same } = await sessions.replay(session);
  return { again, added, verified, state, same, effects: place.effects };
}

/** The result of an interrupted conversation: continued in `resumed`, sent a message in `asked`. */
export async function cutConversation(
  resumed: Place,
  asked: Place,
  app: string,
  session: string,
): Promise<Record<string, unknown>> {
  const short = async (place: Place, start: TurnStart): Promise<object> => {
    const { state, ...rest } = await turn(place, app, session, start);
    return { ...rest, state: digestOf(state) };
  };
  return { resumed: await short(resumed, {}), asked: await short(asked, { message: messageFor(app) }) };
}
