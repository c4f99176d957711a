// Random turns, failures, interruptions and rewinds: the stored state is always the fold of the committed events.
// A hook sees that state with the writes of its step.
import fc from "fast-check";
import {
  createSessions,
  defineAgent,
  scriptedModel,
  tool,
  type Agent,
  type Conversations,
  type AgentState,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { applyDelta, type Delta } from "../../src/core/delta.ts";
import type { Json } from "../../src/core/json.ts";
import { inForceIn } from "../../src/core/session.ts";
import { everyStore, type StoreKind } from "../every-store.ts";
import { runs } from "../runs.ts";
import { finish, logOf, plain, stepsOf } from "./engine.ts";

const hooks = [
  "beforeAgent",
  "beforeModel",
  "model",
  "afterModel",
  "beforeTool",
  "tool",
  "afterTool",
  "afterAgent",
] as const;
type Hook = (typeof hooks)[number];

type Write = { kind: "set" | "push"; key: string; value: number } | { kind: "delete"; key: string };

interface Turn {
  kind: "turn" | "continue";
  session: number;
  engine: number;
  /** The writes of each hook. */
  writes: Partial<Record<Hook | "stateDelta", Write[]>>;
  /** The calls of the first answer: serial tools, or parallel ones. */
  calls: ("own" | "aside")[];
  fault: { at: Hook; how: "throw" | "cancel" } | null;
  stream: boolean;
}

type Action = Turn | { kind: "rewind"; session: number; engine: number; back: number };

const key = fc.constantFrom("a", "b", "c/d", "user:a", "user:b", "app:a", "app:b", "temp:a", "temp:b");
const write: fc.Arbitrary<Write> = fc.oneof(
  fc.record({ kind: fc.constantFrom("set", "push"), key, value: fc.nat(9) }),
  fc.record({ kind: fc.constant("delete"), key }),
);
const some = fc.array(write, { maxLength: 3 });
const turn: fc.Arbitrary<Turn> = fc.record({
  kind: fc.constantFrom("turn", "turn", "turn", "continue"),
  session: fc.nat(2),
  engine: fc.nat(1),
  writes: fc.record({ ...Object.fromEntries(hooks.map((hook) => [hook, some])), stateDelta: some }),
  calls: fc.array(fc.constantFrom("own", "aside"), { maxLength: 3 }),
  fault: fc.option(fc.record({ at: fc.constantFrom(...hooks), how: fc.constantFrom("throw", "cancel") })),
  stream: fc.boolean(),
});
const rewind = fc.record({ kind: fc.constant("rewind"), session: fc.nat(2), engine: fc.nat(1), back: fc.nat(2) });
const program = fc.array(fc.oneof({ weight: 5, arbitrary: turn }, { weight: 1, arbitrary: rewind }), { maxLength: 7 });

/** Applies a write to a draft or a plain object alike. */
function apply(state: AgentState, write: Write): void {
  if (write.kind === "delete") delete state[write.key];
  else if (write.kind === "set") state[write.key] = { n: write.value };
  else if (Array.isArray(state[write.key])) state[write.key].push(write.value);
  else state[write.key] = [write.value];
}

const isTemporary = (key: string): boolean => key.startsWith("temp:");

/** The expected view of a turn: stored state, temporary state, and the writes of its step. */
function createShadow() {
  let temporary: AgentState = {};
  let pending: Write[] = [];
  return {
    write: (writes: Write[]) => void pending.push(...writes),
    mark: () => pending.length,
    backTo: (mark: number) => void pending.splice(mark),
    /** A step was committed, or has failed. */
    commit(isKept: boolean) {
      const state = { ...temporary };
      if (isKept) for (const one of pending.filter(({ key }) => isTemporary(key))) apply(state, one);
      temporary = plain(state);
      pending = [];
    },
    seen(stored: AgentState): AgentState {
      const state = plain({ ...stored, ...temporary });
      for (const one of pending) apply(state, one);
      return state;
    },
  };
}

/** An agent that plays a turn. `look` compares the view of hooks. */
function agentOf(
  turn: Turn,
  shadow: ReturnType<typeof createShadow>,
  stop: () => void,
  look: (state: AgentState) => Promise<void>,
): Agent {
  let isFaulty = turn.fault !== null;
  // Parallel calls have no predictable order, and neither have the calls of a resumed run.
  const isAside = turn.calls.includes("aside") || turn.kind === "continue";
  const isUnordered = (hook: Hook): boolean => isAside && hook.toLowerCase().includes("tool");
  const writesOf = (hook: Hook): Write[] =>
    (turn.writes[hook] ?? []).filter(({ key }) => !isUnordered(hook) || !isTemporary(key));
  const act = async (hook: Hook, state: AgentState | undefined): Promise<void> => {
    if (state) {
      const writes = writesOf(hook);
      for (const one of writes) apply(state, one);
      shadow.write(writes);
      if (!isUnordered(hook)) await look(state);
    }
    if (!isFaulty || turn.fault?.at !== hook) return;
    isFaulty = false;
    if (turn.fault.how === "throw") throw new Error("on purpose");
    stop();
  };
  let started = 0;
  /** A failed call drops its writes. */
  const ofCall = async (hook: Hook, state: AgentState): Promise<void> => {
    if (hook === "beforeTool") started = shadow.mark();
    try {
      await act(hook, state);
    } catch (thrown) {
      shadow.backTo(started);
      throw thrown;
    }
  };
  return defineAgent({
    name: "worker",
    model: scriptedModel(async ({ input }) => {
      await act("model", undefined);
      const isDone = input.at(-1)?.type === "function_call_output" || turn.calls.length === 0;
      return isDone ? "Done." : { calls: turn.calls.map((name) => ({ name })) };
    }),
    tools: {
      own: tool<AgentState, undefined>({ description: "Works.", run: ({ state }) => ofCall("tool", state) }),
      aside: tool<AgentState, undefined>({
        description: "Works.",
        concurrent: true,
        run: ({ update }) => {
          for (const one of writesOf("tool")) update((state) => apply(state, one));
        },
      }),
    },
    callbacks: {
      beforeAgent: ({ state }) => act("beforeAgent", state),
      beforeModel: ({ state }) => act("beforeModel", state),
      afterModel: ({ state }) => act("afterModel", state),
      beforeTool: ({ state }) => ofCall("beforeTool", state),
      afterTool: ({ state }) => ofCall("afterTool", state),
      afterAgent: ({ state }) => act("afterAgent", state),
    },
  });
}

async function runProgram(actions: Action[], kind: StoreKind): Promise<void> {
  const storage = await kind.open();
  try {
    const stores = [storage.store, await storage.second()];
    // One of them keeps nothing between runs.
    const engines = stores.map((store, n) =>
      createSessions({ app: "app", store, ...(n === 1 && { cache: { sessions: 0 } }) }),
    ) as [Conversations, Conversations];
    const users = ["ann", "ann", "bob"];
    const ids: string[] = [];
    /** The shared state as the fold of all sessions' events, in commit order. */
    const shared: Record<string, Json> = { ann: {}, bob: {}, app: {} };
    for (const user of users) ids.push((await engines[0].open({ user, state: { a: { n: 0 }, own: user } })).session);

    for (const action of actions) {
      const session = ids[action.session] as string;
      const user = users[action.session] as string;
      const [sessions, other] = [engines[action.engine], engines[1 - action.engine]] as [Conversations, Conversations];
      if (action.kind === "rewind") {
        const events = await logOf(sessions, session);
        const isInForce = inForceIn(events);
        const began = events
          .filter((event) => event.type === "invocation.began" && isInForce(event.version))
          .at(-1 - action.back) as { invocation: string } | undefined;
        if (began) await sessions.rewind(session, { before: began.invocation });
      } else {
        const controller = new AbortController();
        const saw: [AgentState, AgentState][] = [];
        const shadow = createShadow();
        const agent = agentOf(
          action,
          shadow,
          () => controller.abort(),
          async (state) => {
            saw.push([plain(state), shadow.seen(await other.state(session))]);
          },
        );
        const stateDelta: AgentState = {};
        const given = (action.writes.stateDelta ?? []).filter(({ kind }) => kind === "set");
        for (const one of given) apply(stateDelta, one);
        shadow.write(action.kind === "turn" ? given : []);
        const before = (await stepsOf(sessions, session)).length;
        const yielded: unknown[] = [];
        const message = action.kind === "turn" ? { message: "go", stateDelta } : {};
        const options = { sessions, session, ...message, signal: controller.signal, stream: action.stream };
        try {
          await finish(agent, options, (event) => {
            if (event.type === "partial") return;
            yielded.push(event);
            for (const operation of event.shared ?? []) {
              const [, scope, rest] = /^\/(user|app):(.*)$/.exec(operation.path) as unknown as [string, string, string];
              const whose = scope === "app" ? "app" : user;
              shared[whose] = applyDelta(shared[whose] as Json, structuredClone([{ ...operation, path: `/${rest}` }]));
            }
            shadow.commit(event.type !== "agent.failed");
          });
        } catch (thrown) {
          if (!["run_cancelled", "nothing_to_continue"].includes((thrown as { code: string }).code)) throw thrown;
        }
        for (const [seen, right] of saw) expect(seen).toEqual(right);
        expect((await stepsOf(other, session)).slice(before)).toEqual(yielded);
      }

      for (const [n, id] of ids.entries()) {
        const log = await logOf(other, id);
        expect(JSON.stringify(log)).not.toContain("temp:");
        const own = log.reduce<Json>((state, { delta }) => applyDelta(state, structuredClone(delta ?? [])), null);
        const scoped = (scope: string, whose: string): [string, Json][] =>
          Object.entries(shared[whose] as AgentState).map(([key, value]) => [`${scope}:${key}`, value as Json]);
        const right = {
          ...(own as AgentState),
          ...Object.fromEntries([...scoped("user", users[n] as string), ...scoped("app", "app")]),
        };
        expect(await sessions.state(id)).toEqual(right);
        expect(await other.state(id)).toEqual(right);
      }
    }
    for (const engine of engines) await engine.stop();
  } finally {
    await storage.dispose();
  }
}

const sharedKey = fc.constantFrom("user:a", "user:b", "app:a", "app:b/c", "b");
const sharedWrite = fc.oneof(
  fc.record({ kind: fc.constantFrom("set", "push", "push"), key: sharedKey, value: fc.nat(9) }),
  fc.record({ kind: fc.constant("delete"), key: sharedKey }),
) as fc.Arbitrary<Write>;
const crowd = fc.array(
  fc.record({
    engine: fc.nat(1),
    user: fc.nat(1),
    steps: fc.array(fc.array(sharedWrite, { maxLength: 3 }), { maxLength: 3 }),
  }),
  { minLength: 2, maxLength: 6 },
);

/** Concurrent runs of many sessions that write to shared state. */
async function runTogether(
  runners: { engine: number; user: number; steps: Write[][] }[],
  kind: StoreKind,
): Promise<void> {
  const storage = await kind.open();
  try {
    const stores = [storage.store, await storage.second()];
    const engines = stores.map((store) => createSessions({ app: "app", store }));
    const sessions = await Promise.all(
      runners.map(async ({ engine, user, steps }) => {
        const opened = await (engines[engine] as Conversations).open({ user: `user ${user}` });
        for (const writes of steps) {
          const agent = defineAgent({
            name: "worker",
            model: scriptedModel(() => "Done."),
            callbacks: {
              beforeAgent: ({ state }) => writes.forEach((one) => apply(state, one)),
              afterModel: ({ state }) => writes.forEach((one) => apply(state, one)),
            },
          });
          const where = { sessions: engines[engine] as Conversations, session: opened.session };
          let done = await finish(agent, { ...where, message: "go" });
          // Of two conflicting changes one is refused, and can be made again.
          while (done.outcome === "failed") {
            expect(done.events.at(-1)).toMatchObject({ type: "agent.failed", error: { code: "state_conflict" } });
            done = await finish(agent, where);
          }
          expect(done.outcome).toBe("answered");
        }
        return opened.session;
      }),
    );
    const reader = createSessions({ app: "app", store: await storage.second() });
    const told = new Map(await Promise.all(sessions.map(async (id) => [id, await logOf(reader, id)] as const)));
    for (const [n, session] of sessions.entries()) {
      const state = await reader.state(session);
      for (const engine of engines) expect(await engine.state(session)).toEqual(state);
      for (const [scope, id] of [
        ["app", "holdfast:app:app"],
        ["user", `holdfast:user:app:user ${runners[n]?.user}`],
      ] as const) {
        const entries = (await storage.store.read(id, 0)) ?? [];
        const changes = entries.map(({ body }) => JSON.parse(body) as { session?: string; delta?: Delta });
        const folded = changes.reduce<Json>((all, { delta }) => applyDelta(all, structuredClone(delta ?? [])), {});
        const own = Object.entries(state).filter(([key]) => key.startsWith(`${scope}:`));
        expect(Object.fromEntries(own.map(([key, value]) => [key.slice(scope.length + 1), value]))).toEqual(folded);
        // Each change is in the event of its commit.
        const byEvents = (told.get(session) ?? []).flatMap((event) => ("shared" in event ? (event.shared ?? []) : []));
        expect(byEvents.filter(({ path }) => path.startsWith(`/${scope}:`))).toEqual(
          changes
            .filter((change) => change.session === session)
            .flatMap(({ delta = [] }) => delta.map((one) => ({ ...one, path: `/${scope}:${one.path.slice(1)}` }))),
        );
      }
    }
    for (const engine of [...engines, reader]) await engine.stop();
  } finally {
    await storage.dispose();
  }
}

for (const kind of everyStore.filter(({ name }) => !name.includes("power"))) {
  describe(kind.name, { tags: kind.tags }, () => {
    test("LIFECYCLE, TEMP: any turns, failures, interruptions and rewinds leave the state equal to the fold of the stored events", async () => {
      await fc.assert(
        fc.asyncProperty(program, (actions) => runProgram(actions, kind)),
        { numRuns: runs(kind.persistent ? 15 : 100) },
      );
    });

    test("SERIAL, ATOMIC: concurrently changed shared state is the fold of its log, and the sessions' events contain it", async () => {
      await fc.assert(
        fc.asyncProperty(crowd, (runners) => runTogether(runners, kind)),
        { numRuns: runs(kind.persistent ? 10 : 60) },
      );
    });
  });
}
