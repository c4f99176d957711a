// Random agents, stopped at random events and resumed: logged work is not repeated, and everything replays.
import {
  createSessions,
  defineAgent,
  loop,
  memoryStore,
  parallel,
  run,
  scriptedModel,
  sequence,
  tool,
  type Agent,
  type AgentState,
  type Callbacks,
  type Model,
} from "holdfast";
import fc from "fast-check";
import { expect, test } from "vitest";
import { HoldfastError } from "../../src/core/errors.ts";
import { randomStream } from "../../src/core/random.ts";
import { runs } from "../runs.ts";
import { logOf } from "./engine.ts";

interface World {
  /** Each question to a model: the agent, and its number of earlier turns. */
  asked: string[];
  sent: string[];
}

/** An agent that depends only on the seed, on `world`, and on durations. */
function randomAgent(seed: number, world: World, isReplay: boolean): Agent {
  const chance = randomStream(seed, 0);
  const below = (limit: number): number => Math.floor(chance() * limit);
  const sometimes = (share: number): boolean => chance() < share;
  let names = 0;

  const pause = () => new Promise((resolve) => setTimeout(resolve, Math.random() * 3));

  /** Only the agent's own keys are read and then written, because the order of parallel reads depends on time. */
  function tools(name: string) {
    return {
      add: tool({
        description: "",
        run: ({ state, random }: { state: AgentState; random(): number }) => {
          state[`${name}.total`] = (state[`${name}.total`] ?? 0) + 1;
          state[`${name}.list`] = [...(state[`${name}.list`] ?? []), random()];
          state[`user:${name}`] = (state[`user:${name}`] ?? 0) + 1;
          return state[`${name}.total`] as number;
        },
      }),
      gather: tool({
        description: "",
        concurrent: true,
        run: async ({ update }: { update(change: (state: AgentState) => void): void }) => {
          await pause();
          update((state) => void (state["gathered"] = (state["gathered"] ?? 0) + 1));
        },
      }),
      send: tool({
        description: "",
        effects: "external",
        run: async ({
          call,
          update,
        }: {
          call: string | undefined;
          update(change: (state: AgentState) => void): void;
        }) => {
          expect(isReplay).toBe(false);
          world.sent.push(call as string);
          await pause();
          update((state) => void (state["sent"] = (state["sent"] ?? 0) + 1));
          return Math.random();
        },
      }),
      refuse: tool({
        description: "",
        run: ({ state }: { state: AgentState }) => {
          state[`${name}.total`] = -1;
          throw new Error("refused");
        },
      }),
      escalate: tool({
        description: "",
        run: (context: { agent?: { escalate(): void } | undefined }) => context.agent?.escalate(),
      }),
    };
  }

  function model(name: string, children: string[], targets: string[]): Model {
    const pick = [
      "add",
      "gather",
      "send",
      "refuse",
      "add",
      "unknown",
      ...(sometimes(0.2) ? ["escalate"] : []),
      ...children,
    ];
    const length = below(4);
    const script = Array.from({ length }, () =>
      Array.from({ length: 1 + below(3) }, () => {
        const tool = pick[below(pick.length)] as string;
        if (children.includes(tool)) pick.splice(pick.indexOf(tool), 1);
        return { name: tool, arguments: children.includes(tool) ? { request: "help" } : {} };
      }),
    );
    if (targets.length > 0 && sometimes(0.7)) {
      script.push([
        { name: "transfer_to_agent", arguments: { agent: targets[below(targets.length)] as string } as never },
      ]);
    }
    const scripted = scriptedModel((_, turn) => {
      const calls = script[turn % (length + 2)];
      // Ids that appear nowhere else.
      if (!calls) return turn % 5 === 4 ? { output: [] } : `${name} says ${turn}`;
      return {
        output: calls.map((call, n) => ({
          type: "function_call",
          call_id: `${name}_${turn}_${n}`,
          name: call.name,
          arguments: JSON.stringify(call.arguments),
        })),
      };
    });
    return {
      name: "random",
      async respond(request, options) {
        expect(isReplay).toBe(false);
        await pause();
        if (Math.random() < 0.05) throw new HoldfastError("model_failed", `lost ${Math.random()}`);
        const response = await scripted.respond(request, options);
        world.asked.push(name);
        return response;
      },
    };
  }

  function callbacks(name: string): Callbacks {
    const count = (state: AgentState, key: string) => void (state[key] = (state[key] ?? 0) + 1);
    return {
      ...(sometimes(0.5) && { beforeAgent: ({ state }) => count(state, `${name}.began`) }),
      ...(sometimes(0.5) && { beforeModel: ({ state }) => count(state, `app:${name}.asked`) }),
      ...(sometimes(0.5) && { afterModel: ({ state }) => count(state, `${name}.answered`) }),
      ...(sometimes(0.3) && {
        onModelError: ({ state }, { message }) => {
          state[`${name}.error`] = message;
          return `${name} is sorry`;
        },
      }),
      ...(sometimes(0.3) && { afterTool: (_, { output }) => (typeof output === "number" ? [output] : undefined) }),
      ...(sometimes(0.3) && {
        onToolError: (_, error) => (error.code === "unknown_tool" ? "no such tool" : undefined),
      }),
      ...(sometimes(0.5) && { afterAgent: ({ state }) => count(state, `${name}.ended`) }),
    };
  }

  function make(depth: number, canHandOver: boolean): Agent {
    const name = `a${names++}`;
    const kind = depth === 0 ? 0 : below(5);
    const agents = (): Agent[] => Array.from({ length: 1 + below(3) }, () => make(depth - 1, false));
    if (kind === 1) return sequence({ name, agents: agents() });
    if (kind === 2) return parallel({ name, agents: agents() });
    if (kind === 3) return loop({ name, times: 2, agents: agents() });
    const child = depth > 0 && sometimes(0.4) ? make(depth - 1, false) : undefined;
    const under = canHandOver && depth > 0 && sometimes(0.4) ? [make(0, false)] : [];
    return defineAgent({
      name,
      model: model(
        name,
        child ? ["child"] : [],
        under.map((one) => one.name),
      ),
      tools: { ...tools(name), ...(child && { child }) },
      agents: under,
      callbacks: callbacks(name),
      outputKey: `${name}.said`,
      limits: { steps: 6 },
    });
  }

  return make(3, true);
}

test("REPLAY, ONCE: random agents, stopped anywhere and resumed, do nothing twice and replay", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0 }),
      fc.array(fc.integer({ min: 1, max: 12 }), { maxLength: 4 }),
      async (seed, stops) => {
        const world: World = { asked: [], sent: [] };
        const agent = randomAgent(seed, world, false);
        const sessions = createSessions({ app: "app", store: memoryStore() });
        const { session } = await sessions.open({ state: { list: [] } });
        let isOver = true;
        for (const stop of [...stops, Infinity, Infinity]) {
          // A stopped run is resumed, or abandoned for another message.
          const isNew = isOver || stop % 5 === 0;
          let seen = 0;
          isOver = false;
          const running = run(agent, {
            sessions,
            session,
            ...(isNew && { message: `at ${seen}` }),
            throwOnFailure: false,
          });
          for (;;) {
            const next = await running.next();
            if (next.done) {
              isOver = next.value.outcome !== "failed";
              break;
            }
            isOver = next.value.type === "agent.ended" && next.value.last === true;
            if (++seen === stop) {
              await running.return(undefined as never);
              break;
            }
          }
        }
        if (seed % 3 === 0) {
          const events = await logOf(sessions, session);
          const began = events.filter((event) => event.type === "invocation.began");
          await sessions.rewind(session, { before: began[seed % began.length]?.invocation as string });
          const message = "after the rewind";
          for await (const _ of run(agent, { sessions, session, message, throwOnFailure: false })) continue;
        }
        const events = await logOf(sessions, session);
        // A committed answer has one question; the other questions were stopped before.
        const answered = events.filter((event) => event.type === "model.answered" && !event.failure).length;
        expect(world.asked.length).toBeGreaterThanOrEqual(answered);
        // Every external effect was recorded before it started.
        const started = events.flatMap((event) => (event.type === "tools.started" ? event.calls : []));
        expect(world.sent.length).toBeLessThanOrEqual(started.length);
        const result = await sessions.replay(session, { agent: randomAgent(seed, world, true) });
        expect(result, result.same ? "" : result.message).toEqual({ same: true, events: events.length });
      },
    ),
    { numRuns: runs(40), timeout: 30_000 },
  );
});
