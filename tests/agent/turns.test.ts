// Turns are calls: a turn that is sent again under its id is applied once.
import { setTimeout as delay } from "node:timers/promises";
import { ask, defineAgent, run as runTurn, scriptedModel, tool, type Agent } from "holdfast";
import { describe, expect, test } from "vitest";
import { finish as run, onEveryStore, type Committed } from "./engine.ts";

/** Runs a turn to its end. Gives its committed events apart from its result. */
async function finish(...given: Parameters<typeof run>) {
  const { events, ...result } = await run(...given);
  return { events: events as Committed[], result };
}

/** Pays once per turn; `effects` counts the payments. */
function payer(): { agent: Agent; effects: string[]; gate: { open(): void; reached: Promise<void> } } {
  const effects: string[] = [];
  let open = (): void => undefined;
  let reach = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  const reached = new Promise<void>((resolve) => (reach = resolve));
  const agent = defineAgent({
    name: "payer",
    model: scriptedModel(({ input }) =>
      input.at(-1)?.type === "function_call_output" ? "Paid." : { calls: [{ name: "pay", arguments: {} }] },
    ),
    tools: {
      pay: tool({
        description: "Pays.",
        effects: "external",
        run: async () => {
          effects.push("pay");
          reach();
          await opened;
          return "paid";
        },
      }),
    },
  });
  return { agent, effects, gate: { open, reached } };
}

const paid = (): { agent: Agent; effects: string[] } => {
  const { gate, ...rest } = payer();
  gate.open();
  return rest;
};

describe("ONCE: a turn that is sent again", () => {
  onEveryStore("gets the recorded events and outcome, here and on another replica", async (place) => {
    const { agent, effects } = paid();
    const sessions = place.engine();
    const { session } = await sessions.open();
    const first = await finish(agent, { sessions, session, message: "pay", call: "m1" });
    expect(first.result).toMatchObject({ outcome: "answered", repeated: false });
    for (const other of [sessions, await place.replica()]) {
      const again = await finish(agent, { sessions: other, session, message: "pay", call: "m1" });
      expect(again.result).toEqual({ ...first.result, repeated: true });
      expect(again.events.map(({ type, version }) => [type, version])).toEqual(
        first.events.map(({ type, version }) => [type, version]),
      );
    }
    expect(effects).toEqual(["pay"]);
  });

  onEveryStore(
    "gets all events of the turn when it continues an interrupted one, and the whole text",
    async (place) => {
      let failures = 1;
      const agent = defineAgent({
        name: "oracle",
        model: scriptedModel(["The answer is 42."]),
        callbacks: {
          afterAgent: () => {
            if (failures-- > 0) throw new Error("the mail server is gone");
          },
        },
      });
      const sessions = place.engine();
      const { session } = await sessions.open();
      const turn = { sessions, session, message: "go", call: "m1", throwOnFailure: false };
      const first = await finish(agent, turn);
      expect(first.result).toMatchObject({ outcome: "failed" });
      const again = await ask(agent, turn);
      expect(again).toMatchObject({ outcome: "answered", repeated: false, text: "The answer is 42." });
      expect(again.events.slice(0, first.events.length)).toEqual(first.events);
      const recorded = await ask(agent, turn);
      expect(recorded).toEqual({ ...again, repeated: true });
      // Without the id, the run only continues the turn, so there is nothing left to do.
      await expect(finish(agent, { sessions, session })).rejects.toMatchObject({ code: "nothing_to_continue" });
    },
  );

  onEveryStore(
    "gets the recorded outcome after the conversation was closed, as a call of an episode does",
    async (place) => {
      const { agent } = paid();
      const sessions = place.engine("app", { keepEnded: true });
      const { session } = await sessions.open();
      const first = await finish(agent, { sessions, session, message: "pay", call: "m1" });
      await sessions.close(session);
      const again = await finish(agent, { sessions, session, message: "pay", call: "m1" });
      expect(again.result).toEqual({ ...first.result, repeated: true });
      const fresh = finish(agent, { sessions, session, message: "pay", call: "m2" });
      await expect(fresh).rejects.toMatchObject({ code: "session_closed" });
    },
  );

  onEveryStore("waits for the one that is running, here and on another replica", async (place) => {
    const { agent, effects, gate } = payer();
    const [sessions, other] = [place.engine(), await place.replica()];
    const { session } = await sessions.open();
    const sent = { session, message: "pay", call: "m1" };
    const first = finish(agent, { sessions, ...sent });
    await gate.reached;
    const repeats = [
      finish(agent, { sessions, ...sent }),
      finish(agent, { sessions, ...sent, busy: "refuse" }),
      finish(agent, { sessions: other, ...sent }),
      finish(agent, { sessions: other, ...sent, busy: "refuse" }),
    ];
    await delay(50);
    gate.open();
    const { result } = await first;
    for (const repeat of await Promise.all(repeats)) expect(repeat.result).toEqual({ ...result, repeated: true });
    expect(effects).toEqual(["pay"]);
  });

  onEveryStore(
    "continues a turn that was cut short on another replica, and does not repeat its effect",
    async (place) => {
      const { agent, effects, gate } = payer();
      const [one, two] = [place.engine(), await place.replica()];
      const { session } = await one.open();
      const stopping = new AbortController();
      const cut = finish(agent, { sessions: one, session, message: "pay", call: "m1", signal: stopping.signal });
      await gate.reached;
      stopping.abort();
      await expect(cut).rejects.toMatchObject({ code: "run_cancelled" });
      const again = await finish(agent, { sessions: two, session, message: "pay", call: "m1" });
      expect(again.result).toMatchObject({ outcome: "answered", repeated: false });
      const failed = again.events.flatMap((event) => (event.type === "tools.answered" ? (event.failed ?? []) : []));
      expect(failed).toMatchObject([{ code: "outcome_unknown" }]);
      expect(effects).toEqual(["pay"]);
      gate.open();
    },
  );

  onEveryStore("is refused with another message or another state, and after a rewind", async (place) => {
    const { agent } = paid();
    const sessions = place.engine();
    const { session } = await sessions.open();
    const { result } = await finish(agent, { sessions, session, message: "pay", call: "m1" });
    const other = [{ message: "pay twice" }, { message: "pay", stateDelta: { a: 1 } }];
    for (const given of other) {
      await expect(finish(agent, { sessions, session, ...given, call: "m1" })).rejects.toMatchObject({
        code: "call_conflict",
      });
    }
    await sessions.rewind(session, { before: result.invocation });
    await expect(finish(agent, { sessions, session, message: "pay", call: "m1" })).rejects.toMatchObject({
      code: "call_undone",
    });
  });

  onEveryStore("continues the turn that failed, and says so of one that another message replaced", async (place) => {
    let fails = true;
    const agent = defineAgent({
      name: "moody",
      model: scriptedModel(() => {
        if (fails) throw new Error("no");
        return "yes";
      }),
    });
    const sessions = place.engine();
    const { session } = await sessions.open();
    const failed = await finish(agent, { sessions, session, message: "a", call: "m1" });
    expect(failed.result.outcome).toBe("failed");
    fails = false;
    const again = await finish(agent, { sessions: await place.replica(), session, message: "a", call: "m1" });
    expect(again.result).toMatchObject({ invocation: failed.result.invocation, outcome: "answered" });
    fails = true;
    await finish(agent, { sessions, session, message: "b", call: "m2" });
    fails = false;
    await finish(agent, { sessions, session, message: "c", call: "m3" });
    const replaced = await finish(agent, { sessions, session, message: "b", call: "m2" });
    expect(replaced.result).toMatchObject({ outcome: "abandoned", repeated: true });
  });
});

onEveryStore("SERIAL: a run that has not seen the newest turn is refused before it begins", async (place) => {
  const agent = defineAgent({ name: "greeter", model: scriptedModel(() => "Hello.") });
  const sessions = place.engine();
  const { session, version: seen } = await sessions.open();
  // Labels do not count, because no turn continues another one then.
  await sessions.label(session, { title: "Greetings" });
  const other = await place.replica();
  await finish(agent, { sessions, session, message: "hi", seen, call: "one" });
  const { version } = await sessions.info(session);
  for (const busy of ["wait", "refuse"] as const) {
    const late = finish(agent, { sessions: other, session, message: "hey", seen, call: "two", busy });
    await expect(late).rejects.toMatchObject({ code: "version_conflict", detail: { seen } });
  }
  const { result } = await finish(agent, { sessions: other, session, message: "hi", seen, call: "one" });
  expect(result.repeated).toBe(true);
  expect((await sessions.info(session)).version).toBe(version);
  await finish(agent, { sessions: other, session, message: "hey", seen: version });
});

test("a call id without a message is refused", async () => {
  const { createSessions, memoryStore } = await import("holdfast");
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const { agent } = paid();
  await expect(finish(agent, { sessions, call: "m1" })).rejects.toMatchObject({ code: "invalid_option" });
});

onEveryStore("ONCE: a rewind into a turn does not run its external calls again", async (place) => {
  const { agent, effects } = paid();
  const sessions = place.engine("app", { agent });
  const { session } = await sessions.open();
  const first = await finish(agent, { sessions, session, message: "pay", call: "m1" });
  const asked = first.events.find(({ type }) => type === "model.answered")?.version;
  await sessions.rewind(session, asked as number);
  const again = await finish(agent, { sessions: await place.replica(), session, message: "pay", call: "m1" });
  expect(again.result).toMatchObject({ outcome: "answered" });
  const failed = again.events.flatMap((event) => (event.type === "tools.answered" ? (event.failed ?? []) : []));
  expect(failed).toMatchObject([
    { code: "call_undone", message: "pay was started before a rewind undid its result; it does not run again" },
  ]);
  expect(effects).toEqual(["pay"]);
  expect(await sessions.replay(session)).toMatchObject({ same: true });
  // The model's next answer makes a new call, with its own id.
  await sessions.rewind(session, first.events[0]?.version as number);
  await finish(agent, { sessions, session });
  expect(effects).toEqual(["pay", "pay"]);
});

onEveryStore("a reader that leaves in the recorded part of a continued turn ends nothing else", async (place) => {
  const agent = defineAgent({
    name: "slow",
    model: {
      name: "slow",
      respond: (_, { signal } = {}) =>
        new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason))),
    },
  });
  const sessions = place.engine();
  const { session } = await sessions.open();
  for (let attempt = 0; attempt < 2; attempt++) {
    const leaving = new AbortController();
    const running = runTurn(agent, { sessions, session, message: "go", call: "m1", signal: leaving.signal });
    expect((await running.next()).value).toMatchObject({ type: "invocation.began" });
    leaving.abort();
    // A rejection that nothing handles would end the process, and fail this test.
    await new Promise((resolve) => setTimeout(resolve, 20));
    await expect(running.next()).rejects.toMatchObject({ code: "run_cancelled" });
  }
});
