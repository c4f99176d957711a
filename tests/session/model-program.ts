// Random programs: their parts, and how one runs on the engine and on the model at once.
import fc from "fast-check";
import {
  createSessions,
  isHoldfastError,
  type NumberedEvent,
  type Sessions,
  type EpisodeOptions,
  type Store,
} from "holdfast";
import { expect } from "vitest";
import { fold, type Session } from "../../src/core/session.ts";
import type { Listed } from "../../src/core/store.ts";
import type { StoreKind } from "../every-store.ts";
import { ledger, sent, strictLedger } from "./model-environment.ts";
import { Line, type Call, type Result } from "./model.ts";

type Engine = Sessions<typeof ledger>;

/** One action. Sessions and versions are numbers modulo the existing ones. */
type Step = { engine: number; session: number } & (
  | { do: "open"; start: number | undefined }
  | { do: "seed"; start: number; call: string | undefined }
  | ({ do: "call" } & Call)
  | { do: "fork" | "verify" | "state"; version: number | undefined }
  | { do: "rewind"; version: number }
  | { do: "info" | "list" | "replay" | "close" }
);

/** Concurrent steps, an engine restart, or a restart of all engines on a reopened store. */
type Turn = Step[] | { restart: number } | "reopen";

export interface Program {
  strict: boolean;
  turns: Turn[];
}

const engines = 3;

const start = fc.constantFrom(0, 100, 1000);
// Two that look the same, and are not.
const call = fc.option(fc.constantFrom("1", "2", "\u00e9", "e\u0301"), { nil: undefined });
const by = fc.constantFrom<unknown[]>(1, 2, 5, 13, "x");
const tool = fc.constantFrom("add", "note", "put", "gather", "send", "say", "keep", "ghost");
const version = fc.nat(50);
const place = { engine: fc.nat(engines - 1), session: fc.nat(7) };
const anyVersion = fc.option(version, { nil: undefined });

const kinds = {
  open: fc.record({ ...place, do: fc.constant("open" as const), start: fc.option(start, { nil: undefined }) }),
  seed: fc.record({ ...place, do: fc.constant("seed" as const), start, call }),
  call: fc.record({ ...place, do: fc.constant("call" as const), tool, input: fc.record({ by }), call }),
  fork: fc.record({ ...place, do: fc.constant("fork" as const), version: anyVersion }),
  look: fc.record({ ...place, do: fc.constantFrom("verify" as const, "state" as const), version: anyVersion }),
  rewind: fc.record({ ...place, do: fc.constant("rewind" as const), version }),
  other: fc.record({ ...place, do: fc.constantFrom("info" as const, "list" as const, "replay" as const) }),
  close: fc.record({ ...place, do: fc.constant("close" as const) }),
} satisfies Record<string, fc.Arbitrary<Step>>;

type Weights = Partial<Record<keyof typeof kinds, number>>;

const usual: Weights = { call: 12, seed: 2, look: 3, fork: 1, rewind: 1, open: 1, other: 2, close: 1 };

/** Programs in which each kind of step is as frequent as its weight. */
export function programs(length: number, weights: Weights = usual): fc.Arbitrary<Program> {
  const step: fc.Arbitrary<Step> = fc.oneof(
    ...Object.entries(weights).map(([kind, weight]) => ({ arbitrary: kinds[kind as keyof typeof kinds], weight })),
  );
  // Most concurrent steps go to one session.
  const atOnce = fc
    .tuple(fc.nat(7), fc.boolean(), fc.array(step, { minLength: 1, maxLength: 5 }))
    .map(([session, same, steps]) => (same ? steps.map((step) => ({ ...step, session })) : steps));
  const turn = fc.oneof(
    { arbitrary: fc.tuple(step), weight: 6 },
    { arbitrary: atOnce, weight: 2 },
    { arbitrary: fc.record({ restart: place.engine }), weight: 1 },
    { arbitrary: fc.constant("reopen" as const), weight: 1 },
  ) as fc.Arbitrary<Turn>;
  // Shrinking drops the first items of an array first, and here the last actions should be dropped first.
  const turns = fc.array(turn, { minLength: 1, maxLength: length, size: "max" }).map((turns) => turns.toReversed());
  return fc.record({ strict: fc.boolean(), turns });
}

interface World {
  strict: boolean;
  engines: Engine[];
  observer: Engine;
  lines: Map<string, Line>;
}

/** Runs a program on a new storage. Rejects if the engine does something that the model does not allow. */
export async function runProgram(
  { strict, turns }: Program,
  kind: StoreKind,
  cache: EpisodeOptions<typeof ledger>["cache"],
  wrap: (store: Store) => Store = (store) => store,
): Promise<void> {
  const storage = await kind.open();
  const environment = strict ? strictLedger : ledger;
  const engineOn = (store: Store): Engine =>
    createSessions({ environment, store: wrap(store), keepEnded: true, ...(cache && { cache }) });
  const stores: Store[] = [];
  const world: World = { strict, engines: [], observer: undefined as never, lines: new Map() };
  const start = async (first: Store): Promise<void> => {
    stores.splice(0, stores.length, first);
    while (stores.length < engines) stores.push(await storage.second());
    world.engines = stores.map(engineOn);
    // Reads without side effects: the other engines stay as far behind as they are.
    world.observer = createSessions({ environment, store: first, keepEnded: true, cache: { sessions: 0 } });
  };
  try {
    await start(storage.store);
    await takeTurn(world, [{ do: "open", engine: 0, session: 0, start: undefined }]);
    for (const turn of turns) {
      if (turn === "reopen") await start(await storage.reopen());
      else if ("restart" in turn) world.engines[turn.restart] = engineOn(stores[turn.restart] as Store);
      else await takeTurn(world, turn);
    }
    for (const [id, line] of world.lines) await checkAll(world, id, line);
  } finally {
    await storage.dispose();
  }
}

interface Done {
  step: Step;
  id: string;
  line: Line;
  /** The newest version at the start of the turn, and the version that the step asked for. */
  before: number;
  version: number | undefined;
  /** The model's prediction: "fresh" if the step takes effect, "repeated", or a code. */
  foreseen: string;
  got: string;
  value: any; // eslint-disable-line typescript/no-explicit-any -- each verb returns something else
}

async function takeTurn(world: World, steps: Step[]): Promise<void> {
  const ids = [...world.lines.keys()];
  const nothing = new Line(undefined, world.strict);
  const planned = steps.map((step): Done => {
    const id = ids[step.session % ids.length] ?? "";
    const line = world.lines.get(id) ?? nothing;
    const before = line.version;
    const version = "version" in step && step.version !== undefined ? step.version % (before + 2) : undefined;
    return { step, id, line, before, version, foreseen: foresee(step, line, version), got: "", value: undefined };
  });
  await Promise.all(
    planned.map(async (done) => {
      try {
        done.value = await act(world.engines[done.step.engine] as Engine, done);
        done.got = done.value?.repeated === true ? "repeated" : "fresh";
      } catch (error) {
        if (!isHoldfastError(error)) throw error;
        done.got = error.code;
      }
    }),
  );
  const fresh = new Map<string, number>();
  const followAll = async (): Promise<void> => {
    for (const [id, line] of world.lines) {
      for (const version of await follow(world, id, line)) fresh.set(`${id} ${version}`, 0);
    }
  };
  await followAll();
  for (const { step, value, line } of planned) {
    if (value === undefined || (step.do !== "open" && step.do !== "fork")) continue;
    const from = step.do === "fork" ? line.moments[value.parent.version] : undefined;
    world.lines.set(value.session, new Line(from, world.strict));
  }
  await followAll();
  for (const done of planned) {
    if (planned.length === 1) expect(done.got, "what comes of a step alone").toBe(done.foreseen);
    else expect(possible(done, planned), "what comes of a step among others").toContain(done.got);
    if (done.value !== undefined) checkValue(world, done, planned.length === 1);
    const answered = `${done.id} ${done.value?.version}`;
    if (done.step.do === "call" && done.got === "fresh") fresh.set(answered, (fresh.get(answered) ?? 0) + 1);
  }
  for (const [version, answers] of fresh)
    expect({ version, answers }, "each event is one answer").toEqual({ version, answers: 1 });
}

function foresee(step: Step, line: Line, version: number | undefined): string {
  if (version === 0 || (version ?? 0) > line.version) return "version_not_found";
  if (step.do === "call") return line.foresee(step);
  if (step.do === "seed") return line.foreseeSeed(step.start, step.call);
  return step.do === "rewind" && line.ended ? "session_closed" : "fresh";
}

/** The possible results of a step with concurrent steps on its session, in any order. */
function possible({ step, id, line, before, version, foreseen }: Done, planned: Done[]): string[] {
  const others = planned.filter((other) => other.id === id && other.step !== step).map(({ step }) => step);
  const any = (...verbs: Step["do"][]): boolean => others.some((other) => verbs.includes(other.do));
  const named = "call" in step && step.call !== undefined;
  const sameName = named && others.some((other) => "call" in other && other.call === step.call);
  const codes = [foreseen];
  const add = (condition: boolean, ...more: string[]): unknown => condition && codes.push(...more);
  const writes = ["call", "seed", "rewind"].includes(step.do);
  add((version ?? 0) > before, "fresh");
  add(writes && any("close"), "session_closed");
  add(sameName, "repeated", "call_conflict", "call_in_progress");
  // In another episode, or before a rewind's undone part, the same id is another call.
  add(step.do === "call" && any("seed", "rewind"), "fresh", "episode_ended", "session_unseeded");
  add(
    step.do === "call" && named && any("seed", "rewind"),
    "repeated",
    "call_conflict",
    "call_undone",
    "call_in_progress",
  );
  add(step.do === "seed" && named && any("rewind"), "repeated", "call_undone");
  add(line.ended, "session_closed");
  return codes;
}

async function act(engine: Engine, { step, id, version }: Done): Promise<unknown> {
  const at = version === undefined ? {} : { version };
  switch (step.do) {
    case "open":
      return engine.open(step.start === undefined ? {} : { task: { start: step.start } });
    case "seed":
      return engine.seed(id, { start: step.start }, step.call === undefined ? {} : { call: step.call });
    case "call":
      return engine.call(
        id,
        step.tool as "add",
        step.input as never,
        step.call === undefined ? {} : { call: step.call },
      );
    case "fork":
      return engine.fork(id, at);
    case "verify":
      return both(engine.verify(id, at), engine.verify(id, at));
    case "state":
      return engine.state(id, version);
    case "rewind":
      return engine.rewind(id, version as number);
    case "list":
      return listOf(engine.list());
    default:
      return engine[step.do](id);
  }
}

/** Waits for both: a step refused for a missing version might find it made by the next step. */
async function both<T>(...done: [Promise<T>, Promise<T>]): Promise<T[]> {
  await Promise.allSettled(done);
  return Promise.all(done);
}

/** Reads new events of a log in order and applies them to the model. Returns the versions of answers. */
async function follow({ observer }: World, id: string, line: Line): Promise<number[]> {
  const answers: number[] = [];
  const events = await listOf(observer.events(id, { after: line.version }));
  for (const event of events) {
    expect(event.version, "the version of the next event").toBe(line.version + 1);
    const expected = line.append(event);
    expect(saidBy(event), `event ${event.version}, ${event.type}`).toEqual(expected);
    expect(await observer.state(id, event.version), "the state after it").toEqual(line.now.state);
    if (event.type === "tool.called" || event.type === "tool.settled") answers.push(event.version);
  }
  const { version, episode, task, ended } = await observer.info(id);
  const { start } = line.now;
  expect({ version, episode, task, ended: ended !== undefined }, "the newest version").toEqual({
    version: line.version,
    episode: line.now.episode,
    ended: line.ended,
    task: start === undefined ? null : { start },
  });
  expect(await observer.state(id), "the newest state").toEqual(line.now.state);
  return answers;
}

/** The content of an event beside its change. */
function saidBy(event: NumberedEvent): unknown {
  if (event.type === "tool.called") return { episode: event.episode, result: resultOf(event.outcome) };
  if (event.type === "tool.settled") return { result: resultOf(event.outcome) };
  if (event.type === "session.verified") return { reward: event.verdict.reward };
  return "episode" in event ? { episode: event.episode } : {};
}

function resultOf(outcome: { ok: true; output: unknown } | { ok: false; error: { code: string } }): Result {
  return outcome.ok ? { output: outcome.output } : { code: outcome.error.code };
}

/** Checks that a step's value is true at some point between the start and the end of the turn. */
function checkValue(world: World, { step, id, line, before, version, got, value }: Done, alone: boolean): void {
  const during = line.moments.slice(before);
  switch (step.do) {
    case "seed": {
      const { version: at, episode } = value;
      expect(value.session).toBe(id);
      if (step.call !== undefined)
        expect(line.seeds.get(step.call)).toEqual({ start: step.start, version: at, episode });
      if (got === "fresh") expect(line.moments[at]).toMatchObject({ episode, start: step.start });
      break;
    }
    case "call": {
      const recorded = line.answeredAt(value.version);
      const { tool, input, call } = step;
      const { session, unseeded } = value;
      expect({ session, tool, input, unseeded, result: resultOf(value) }, "the answer").toEqual({
        session: id,
        tool: recorded?.tool,
        input: recorded?.input,
        unseeded: recorded?.unseeded,
        result: recorded?.result,
      });
      if (call !== undefined) expect(recorded?.call).toBe(call);
      break;
    }
    case "verify":
      for (const { reward, version: judged, episode } of value) {
        if (version !== undefined) expect(judged).toBe(line.moments[version]?.changed);
        expect({ reward, episode }, `the verdict on ${judged}`).toEqual({
          reward: line.reward(judged),
          episode: line.moments[judged]?.episode,
        });
      }
      if (alone) expect(value[0]).toEqual(value[1]);
      break;
    case "state":
      if (version !== undefined) expect(value).toEqual(line.moments[version]?.state);
      else expect(during.map(({ state }) => state)).toContainEqual(value);
      break;
    case "info":
      expect(value.version).toBeGreaterThanOrEqual(before);
      expect(value.episode).toBe(line.moments[value.version]?.episode);
      break;
    case "rewind":
      if (alone) expect(value).toMatchObject({ version: line.version, episode: line.now.episode });
      break;
    case "fork":
      expect(value.parent).toMatchObject({ session: id, ...(version !== undefined && { version }) });
      if (version === undefined) expect(value.parent.version).toBeGreaterThanOrEqual(before);
      break;
    case "replay":
      expect(value).toMatchObject({ same: true });
      break;
    case "list":
      if (alone) {
        const rows = value.map((row: Listed) => [
          row.session,
          { version: row.version, ended: row.ended !== undefined },
        ]);
        const lines = [...world.lines].map(([id, { version, ended }]) => [id, { version, ended }]);
        expect(Object.fromEntries(rows)).toEqual(Object.fromEntries(lines));
      }
      break;
    case "close":
      if (alone) expect(value).toBe(line.version > before);
      break;
    case "open":
  }
}

/** Checks the whole history once more, through every engine. */
async function checkAll({ engines, observer }: World, id: string, line: Line): Promise<void> {
  for (const engine of engines)
    expect(await engine.state(id), "the state, through every engine").toEqual(line.now.state);
  const events = await listOf(observer.events(id));
  let session: Session | undefined;
  for (const event of events) {
    session = fold(session, event);
    expect(session.state, `the fold at ${event.version}`).toEqual(line.moments[event.version]?.state);
    expect(await observer.state(id, event.version), `the state at ${event.version}`).toEqual(session.state);
  }
  expect(events.map(({ at }) => at)).toEqual(events.map(({ at }) => at).toSorted((a, b) => a - b));
  expect(await observer.replay(id)).toEqual({ same: true, events: line.version });
  const claims = events.filter(({ type }) => type === "tool.claimed").length;
  expect(sent.get(id) ?? 0, "how often the external tool ran").toBe(claims);
  sent.delete(id);
}

async function listOf<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = [];
  for await (const item of items) list.push(item);
  return list;
}
