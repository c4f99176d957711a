// A run of many agents is interrupted after any of its events and resumes elsewhere: it ends like an uninterrupted run.
import {
  defineAgent,
  loop,
  parallel,
  scriptedModel,
  sequence,
  tool,
  type Agent,
  type AgentState,
  type Model,
  type NumberedEvent,
  type RunEvent,
} from "holdfast";
import { expect } from "vitest";
import { finish, logOf, onEveryStore, stepsOf } from "./engine.ts";

interface Counts {
  asked: Record<string, number>;
  ran: Record<string, number>;
}

/** Agents of every kind, nested. Every callback and tool counts in the state, and outside of it. */
function crowd(counts: Counts): Agent {
  const count = (of: "asked" | "ran", name: string): void => void (counts[of][name] = (counts[of][name] ?? 0) + 1);
  const asked = (name: string, model: Model): Model => ({
    name,
    async respond(request, options) {
      count("asked", name);
      return model.respond(request, options);
    },
  });
  const callbacks = (name: string) => ({
    beforeAgent: ({ state }: { state: AgentState }) =>
      void (state[`${name}_began`] = (state[`${name}_began`] ?? 0) + 1),
    beforeModel: ({ state }: { state: AgentState }) => void (state[`user:${name}`] = (state[`user:${name}`] ?? 0) + 1),
    afterAgent: ({ state }: { state: AgentState }) => void (state[`${name}_ended`] = (state[`${name}_ended`] ?? 0) + 1),
  });
  const saying = (name: string, text: string): Agent =>
    defineAgent({
      name,
      model: asked(
        name,
        scriptedModel(() => text),
      ),
      callbacks: callbacks(name),
      outputKey: `${name}_said`,
    });
  const work = tool<AgentState, undefined>({
    description: "Works.",
    run: ({ state }) => {
      count("ran", "work");
      return (state["worked"] = (state["worked"] ?? 0) + 1);
    },
  });
  const rounds = loop({
    name: "rounds",
    times: 3,
    agents: [
      defineAgent({
        name: "counter",
        callbacks: callbacks("counter"),
        model: asked(
          "counter",
          scriptedModel(({ input }) =>
            input.at(-1)?.type === "function_call_output" ? "On." : { calls: [{ name: "next" }] },
          ),
        ),
        tools: {
          next: tool<AgentState, undefined>({
            description: "Counts.",
            run: ({ state, agent }) => {
              count("ran", "next");
              state["round"] = (state["round"] ?? 0) + 1;
              if (state["round"] === 2) agent?.escalate();
            },
          }),
        },
      }),
    ],
  });
  const helper = sequence({
    name: "helper",
    agents: [
      saying("first", "One."),
      parallel({ name: "both", agents: [saying("left", "L."), saying("right", "R.")] }),
    ],
  });
  const flow = sequence({
    name: "flow",
    agents: [
      rounds,
      parallel({ name: "pair", agents: [saying("a", "A."), saying("ab", "AB.")] }),
      saying("last", "End."),
    ],
  });
  return defineAgent({
    name: "root",
    callbacks: callbacks("root"),
    agents: [flow],
    model: asked(
      "root",
      scriptedModel([
        { calls: [{ name: "work" }, { name: "help", arguments: { request: "please" } }, { name: "work" }] },
        { calls: [{ name: "transfer_to_agent", arguments: { agent: "flow" } }] },
      ]),
    ),
    tools: { work, help: helper },
  });
}

const total = (counts: Record<string, number>): number => Object.values(counts).reduce((sum, count) => sum + count, 0);

/** The part of the events that does not depend on the run. Parallel events may come in any order. */
const essence = (events: (RunEvent | NumberedEvent)[]): string[] =>
  events
    .map((event) => {
      const {
        type,
        path = "",
        items,
        delta,
      } = event as { type: string; path?: string; items?: unknown; delta?: unknown };
      return JSON.stringify({ type, path, items, writes: delta !== undefined });
    })
    .sort();

onEveryStore(
  "LIFECYCLE: a run that is interrupted after any event and resumes elsewhere ends like an uninterrupted one",
  async (place) => {
    const sessions = place.engine();
    const other = await place.replica();
    const counts: Counts = { asked: {}, ran: {} };
    const whole = await finish(crowd(counts), { sessions, user: "whole", message: "go" });
    expect(whole.outcome).toBe("answered");
    const state = await sessions.state(whole.session);
    const log = (await logOf(sessions, whole.session)).slice(1);
    expect(state).toMatchObject({ worked: 2, round: 2, last_said: "End." });
    for (let cut = 1; cut < log.length; cut++) {
      const { session } = await sessions.open({ user: `cut ${cut}` });
      let seen = 0;
      await finish(crowd({ asked: {}, ran: {} }), { sessions, session, message: "go" }, () => {
        if (++seen === cut) throw new Error("cut");
      }).catch(() => undefined);
      const before = (await logOf(sessions, session)).length;
      const again: Counts = { asked: {}, ran: {} };
      const { outcome, events } = await finish(crowd(again), { sessions: other, session });
      expect(outcome, `cut after ${cut}`).toBe("answered");
      expect(essence((await stepsOf(sessions, session)).slice(1)), `cut after ${cut}`).toEqual(essence(log));
      expect(await other.state(session), `cut after ${cut}`).toEqual(state);
      // No committed answer is requested again.
      const answers = events.filter(({ type }) => type === "model.answered");
      expect(total(again.asked), `cut after ${cut}`).toBe(answers.length);
      if (events.every((event) => event.type !== "tools.answered" || event.agent !== "root" || event.transfer)) {
        expect(again.ran["work"], `cut after ${cut}`).toBe(undefined);
      }
      expect(before).toBeGreaterThan(cut);
    }
  },
);
