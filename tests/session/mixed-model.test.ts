// Random programs that mix episodes and conversations in one store, on the engine and on one model of it at once.
import fc from "fast-check";
import {
  createSessions,
  defineAgent,
  defineEnvironment,
  isHoldfastError,
  scriptedModel,
  tool,
  type AgentState,
  type Conversations,
  type Episodes,
  type Store,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { finish } from "../agent/engine.ts";
import { everyStore, type StoreKind } from "../every-store.ts";
import { runs } from "../runs.ts";

const counter = defineEnvironment({
  name: "counter",
  state: z.object({ count: z.number().default(0) }),
  task: z.object({}),
  seed: () => ({ count: 0 }),
  tools: {
    add: tool({
      description: "Adds.",
      input: z.object({ by: z.number() }),
      run: ({ state }, { by }) => (state.count += by),
    }),
  },
  verify: ({ state }) => state.count,
});

/** Adds the number that the user says, in a tool; and to the total that all conversations share, in a callback. */
const adder = defineAgent({
  name: "adder",
  model: scriptedModel(({ input }) => {
    const said = input.at(-1);
    return said?.type === "message" ? { calls: [{ name: "add", arguments: { by: Number(said.content) } }] } : "Added.";
  }),
  tools: {
    add: tool({
      description: "Adds.",
      input: z.object({ by: z.number() }),
      run: ({ state }: { state: AgentState }, { by }: { by: number }) => {
        state["count"] = Number(state["count"] ?? 0) + by;
      },
    }),
  },
  callbacks: {
    afterTool: ({ update }, { input }) =>
      update("user:total", (total) => Number(total ?? 0) + (input as { by: number }).by),
  },
});

type Kind = "episode" | "conversation";

/** One action. Sessions and moments are numbers modulo the existing ones. */
type Step = { engine: number; session: number } & (
  | { do: "open"; kind: Kind }
  | { do: "add"; by: number; call: string | undefined }
  | { do: "fork" | "rewind" | "look"; moment: number }
  | { do: "replay" | "verify" | "save" | "close" }
);

/** Steps at once, each on another session; or a restart of one of the engines. */
type Turn = Step[] | { restart: number };

interface Moment {
  version: number;
  count: number;
  known: readonly string[];
  /** The numbers added under call ids so far, also under ids that a rewind undid. */
  used: ReadonlyMap<string, number>;
}

/** The model: a session is a list of counts, and a call id is used once. */
interface Line {
  kind: Kind;
  /** After each change: the version, the count, and the call ids in force. The last one is now. */
  moments: Moment[];
  ended: boolean;
}

/** The state that all conversations share, and the conversations that changed it. */
interface Shared {
  total: number;
  writers: Set<string>;
}

interface Engine {
  episodes: Episodes<typeof counter>;
  conversations: Conversations;
}

const place = { engine: fc.nat(2), session: fc.nat(9) };
const call = fc.option(fc.constantFrom("a", "b"), { nil: undefined });
const step = fc.oneof(
  { arbitrary: fc.record({ ...place, do: fc.constant("add"), by: fc.constantFrom(1, 10, 100), call }), weight: 8 },
  {
    arbitrary: fc.record({ ...place, do: fc.constant("open"), kind: fc.constantFrom("episode", "conversation") }),
    weight: 2,
  },
  { arbitrary: fc.record({ ...place, do: fc.constantFrom("fork", "rewind", "look"), moment: fc.nat(9) }), weight: 5 },
  { arbitrary: fc.record({ ...place, do: fc.constantFrom("replay", "verify", "save", "close") }), weight: 3 },
) as fc.Arbitrary<Step>;
const programs = fc.array(
  fc.oneof(
    { arbitrary: fc.array(step, { minLength: 1, maxLength: 3 }), weight: 6 },
    { arbitrary: fc.record({ restart: fc.nat(2) }), weight: 1 },
  ) as fc.Arbitrary<Turn>,
  { minLength: 1, maxLength: 15, size: "max" },
);

async function runProgram(turns: Turn[], kind: StoreKind): Promise<void> {
  const storage = await kind.open();
  const stores: Store[] = [storage.store, await storage.second(), await storage.second()];
  const engineOn = (store: Store, small: boolean): Engine => {
    const options = { store, keepEnded: true, ...(small && { cache: { sessions: 1 } }) };
    return {
      episodes: createSessions({ environment: counter, ...options }),
      conversations: createSessions({ app: "adder", ...options }),
    };
  };
  const engines = stores.map((store, at) => engineOn(store, at === 2));
  const lines = new Map<string, Line>();
  const shared: Shared = { total: 0, writers: new Set() };
  try {
    for (const first of ["episode", "conversation"] as const) {
      await take({ do: "open", kind: first, engine: 0, session: 0 }, engines, lines, shared);
    }
    for (const turn of turns) {
      if ("restart" in turn) engines[turn.restart] = engineOn(stores[turn.restart]!, turn.restart === 2);
      else {
        const of = ({ session }: Step): number => session % lines.size;
        const apart = turn.filter((step, at) => turn.findIndex((other) => of(other) === of(step)) === at);
        await Promise.all(apart.map((step) => take(step, engines, lines, shared)));
      }
    }
    await checkAll(engines, lines, shared);
  } finally {
    for (const { episodes, conversations } of engines) await Promise.all([episodes.stop(), conversations.stop()]);
    await storage.dispose();
  }
}

/** Takes a step on an engine and on the model, and compares what comes of it. */
async function take(step: Step, engines: Engine[], lines: Map<string, Line>, shared: Shared): Promise<void> {
  const engine = engines[step.engine]!;
  const [id = "", line] = [...lines][step.session % Math.max(1, lines.size)] ?? [];
  const sessions = (kind: Kind) => (kind === "episode" ? engine.episodes : engine.conversations);
  if (step.do === "open") {
    const { session, version } = await open(engine, step.kind);
    lines.set(session, emptyLine(step.kind, version, 0));
    return;
  }
  if (!line) return;
  const verbs = sessions(line.kind);
  const now = line.moments.at(-1)!;
  const at = "moment" in step ? step.moment % line.moments.length : 0;
  const chosen = line.moments[at]!;
  switch (step.do) {
    case "add": {
      const expected = foresee(line, step);
      expect(await codeOf(add(engine, line.kind, id, step))).toBe(expected);
      if (expected !== "fresh") return;
      const { call, by } = step;
      const known = call === undefined ? now.known : [...now.known, call];
      const used = call === undefined ? now.used : new Map([...now.used, [call, by]]);
      line.moments.push({ version: await versionOf(verbs, id), count: now.count + by, known, used });
      if (line.kind === "episode") return;
      shared.total += by;
      shared.writers.add(id);
      return;
    }
    case "fork": {
      const { session, version, parent } = await verbs.fork(id, { version: chosen.version });
      expect(parent).toEqual({ session: id, version: chosen.version });
      // The fork of a conversation has its turns, that of an episode only its state.
      const { count } = chosen;
      if (line.kind === "episode") lines.set(session, emptyLine(line.kind, version, count));
      else lines.set(session, { kind: line.kind, moments: [{ ...chosen, version }], ended: false });
      return;
    }
    case "rewind": {
      const expected = line.ended ? "session_closed" : "fresh";
      expect(await codeOf(verbs.rewind(id, chosen.version).then(() => ({ repeated: false })))).toBe(expected);
      if (line.ended) return;
      line.moments.push({ ...chosen, used: now.used, version: await versionOf(verbs, id) });
      return;
    }
    case "look":
      expect(countIn(await verbs.state(id, chosen.version))).toBe(chosen.count);
      return;
    case "replay": {
      const { episodes, conversations } = engine;
      const replayed = line.kind === "episode" ? episodes.replay(id) : conversations.replay(id, { agent: adder });
      // A replay does not know what other conversations shared, and when.
      const isAlone = line.kind === "episode" || [...shared.writers].every((writer) => writer === id);
      expect((await replayed).same || !isAlone).toBe(true);
      return;
    }
    case "verify":
      if (line.kind === "episode") expect(await engine.episodes.verify(id)).toMatchObject({ reward: now.count });
      return;
    case "save": {
      const { session } = await verbs.restore(await verbs.save(id));
      const { version } = await verbs.info(session);
      lines.set(session, { ...line, moments: [{ ...now, version }] });
      return;
    }
    case "close":
      expect(await verbs.close(id)).toBe(!line.ended);
      line.ended = true;
  }
}

const emptyLine = (kind: Kind, version: number, count: number): Line => ({
  kind,
  moments: [{ version, count, known: [], used: new Map() }],
  ended: false,
});

const open = ({ episodes, conversations }: Engine, kind: Kind) =>
  kind === "episode" ? episodes.open({ task: {} }) : conversations.open({ user: "ann" });

const add = (
  { episodes, conversations }: Engine,
  kind: Kind,
  id: string,
  { by, call }: { by: number; call: string | undefined },
) =>
  kind === "episode"
    ? episodes.call(id, "add", { by }, { ...(call !== undefined && { call }) })
    : finish(adder, {
        sessions: conversations,
        session: id,
        message: String(by),
        ...(call !== undefined && { call }),
      });

/** "fresh" if the change takes effect, "repeated", or the code of the refusal. */
function foresee({ moments, ended }: Line, { by, call }: { by: number; call: string | undefined }): string {
  const { known, used } = moments.at(-1)!;
  const before = call === undefined ? undefined : used.get(call);
  if (before === undefined) return ended ? "session_closed" : "fresh";
  if (before !== by) return "call_conflict";
  return known.includes(call!) ? "repeated" : "call_undone";
}

async function codeOf(work: Promise<{ repeated: boolean }>): Promise<string> {
  try {
    return (await work).repeated ? "repeated" : "fresh";
  } catch (thrown) {
    if (!isHoldfastError(thrown)) throw thrown;
    return thrown.code;
  }
}

const versionOf = async (verbs: Episodes<typeof counter> | Conversations, id: string): Promise<number> =>
  (await verbs.info(id)).version;

const countIn = (state: object): number => Number((state as { count?: number }).count ?? 0);

/** Every engine agrees with the model on every session, at every version that the model knows, and on the lists. */
async function checkAll(engines: Engine[], lines: Map<string, Line>, shared: Shared): Promise<void> {
  for (const { episodes, conversations } of engines) {
    for (const [id, { kind, moments }] of lines) {
      const verbs = kind === "episode" ? episodes : conversations;
      for (const { version, count } of moments) expect(countIn(await verbs.state(id, version))).toBe(count);
      expect(countIn(await verbs.state(id))).toBe(moments.at(-1)!.count);
      if (kind === "conversation" && shared.total > 0) {
        expect(await conversations.state(id)).toMatchObject({ "user:total": shared.total });
      }
    }
    const of = (kind: Kind): string[] => [...lines].filter(([, line]) => line.kind === kind).map(([id]) => id);
    expect(await idsIn(episodes)).toEqual(of("episode").toSorted());
    expect(await idsIn(conversations)).toEqual(of("conversation").toSorted());
  }
}

async function idsIn(verbs: Episodes<typeof counter> | Conversations): Promise<string[]> {
  const ids: string[] = [];
  for await (const { session } of verbs.list()) ids.push(session);
  return ids.toSorted();
}

for (const kind of everyStore) {
  describe(kind.name, { tags: kind.tags }, () => {
    test(
      "ISOLATION, ONCE, FORK, REPLAY, CLEANUP: any program of episodes and conversations agrees with one model",
      async () => {
        const property = fc.asyncProperty(programs, (turns) => runProgram(turns, kind));
        await fc.assert(property, { numRuns: runs(kind.isRemote ? 5 : kind.persistent ? 15 : 60) });
      },
      runs(120_000),
    );
  });
}
