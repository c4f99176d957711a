// Agents that run agents: in sequence, in a loop, in parallel, as tools, and by transfer.
import {
  answerText,
  defineAgent,
  loop,
  parallel,
  scriptedModel,
  sequence,
  tool,
  type Agent,
  type AgentOptions,
  type AgentState,
  type Item,
} from "holdfast";
import { describe, expect } from "vitest";
import { toText } from "../../src/core/model.ts";
import { codeOf, finish, gate, logOf, onEveryStore, stepsOf, type Committed } from "./engine.ts";

type Options = Partial<AgentOptions<Record<string, never>>>;

/** An agent that says one thing. */
const saying = (name: string, text: string, options: Options = {}): Agent =>
  defineAgent({ name, model: scriptedModel(() => text), ...options });

/** The texts that a model is shown. */
const texts = (input: Item[]): string[] =>
  input.flatMap((item) => {
    if ("content" in item) return toText(item.content as string);
    if ("output" in item) return `= ${toText(item.output as string)}`;
    return "name" in item ? `${String(item.name)}()` : [];
  });

/** An agent that says one thing, and records the texts it was shown. */
const listening = (name: string, text: string, shown: Record<string, string[]>, options: Options = {}): Agent =>
  defineAgent({
    name,
    model: scriptedModel(({ input }) => {
      shown[name] = texts(input);
      return text;
    }),
    ...options,
  });

const said = (events: { type: string }[]): string[] =>
  (events as Committed[]).flatMap((event) =>
    event.type === "model.answered" ? `${event.agent}: ${answerText(event.items)}` : [],
  );

describe("a sequence", () => {
  onEveryStore(
    "runs its agents in order; each sees the earlier messages, and reads the stored state",
    async (place) => {
      const sessions = place.engine();
      const shown: Record<string, string[]> = {};
      const agent = sequence({
        name: "press",
        agents: [
          saying("writer", "A draft.", { outputKey: "draft" }),
          listening("editor", "A text.", shown, { instruction: "Edit: {draft}", outputKey: "temp:text" }),
          listening("printer", "Printed.", shown, { instruction: "Print: {temp:text}" }),
        ],
      });
      const { outcome, events, session } = await finish(agent, { sessions, message: "go" });
      expect(outcome).toBe("answered");
      expect(said(events)).toEqual(["writer: A draft.", "editor: A text.", "printer: Printed."]);
      expect(shown).toEqual({
        editor: ["go", "[writer] said: A draft."],
        printer: ["go", "[writer] said: A draft.", "[editor] said: A text."],
      });
      expect(await sessions.state(session)).toEqual({ draft: "A draft." });
      expect((events as Committed[]).filter((event) => "last" in event)).toMatchObject([{ agent: "press" }]);
    },
  );

  onEveryStore("continues after an agent whose beforeAgent has answered, and stores its text too", async (place) => {
    const sessions = place.engine();
    const agent = sequence({
      name: "press",
      agents: [
        saying("writer", "never said", { outputKey: "draft", callbacks: { beforeAgent: () => "From memory." } }),
        saying("editor", "Done.", { instruction: "Edit: {draft}" }),
      ],
    });
    const { events, session } = await finish(agent, { sessions, message: "go" });
    expect(said(events)).toEqual(["editor: Done."]);
    expect(await sessions.state(session)).toEqual({ draft: "From memory." });
  });

  onEveryStore("ends at a failing agent, and resumes there", async (place) => {
    const sessions = place.engine();
    let isBroken = true;
    const agent = sequence({
      name: "press",
      agents: [
        saying("writer", "A draft."),
        defineAgent({
          name: "editor",
          model: scriptedModel(() => {
            if (isBroken) throw new Error("out of ink");
            return "A text.";
          }),
        }),
        saying("printer", "Printed."),
      ],
    });
    const { outcome, session, events } = await finish(agent, { sessions, message: "go" });
    expect(outcome).toBe("failed");
    expect(events.at(-1)).toMatchObject({ agent: "editor", error: { message: expect.stringContaining("out of ink") } });
    isBroken = false;
    const again = await finish(agent, { sessions, session });
    expect(again.outcome).toBe("answered");
    expect(said(await logOf(sessions, session))).toEqual(["writer: A draft.", "editor: A text.", "printer: Printed."]);
  });
});

describe("a loop", () => {
  /** Counts, and escalates at a number. */
  const counter = (name: string, until: number): Agent =>
    defineAgent({
      name,
      model: scriptedModel(({ input }) => {
        const last = input.at(-1);
        return last?.type === "function_call_output" ? "Counted." : { calls: [{ name: "count" }] };
      }),
      tools: {
        count: tool<AgentState, undefined>({
          description: "Counts.",
          run: ({ state, agent }) => {
            state["count"] = (state["count"] ?? 0) + 1;
            if (state["count"] >= until) agent?.escalate();
          },
        }),
      },
    });

  onEveryStore("runs until a tool escalates; later agents of that round do not run", async (place) => {
    const sessions = place.engine();
    const agents = [counter("counter", 3), saying("other", "And on.")];
    const { session, outcome, events } = await finish(loop({ name: "rounds", times: 10, agents }), {
      sessions,
      message: "go",
    });
    expect(outcome).toBe("answered");
    expect(await sessions.state(session)).toEqual({ count: 3 });
    expect(said(events).filter((text) => text.startsWith("other"))).toHaveLength(2);
    expect(events.filter((event) => "escalate" in event)).toHaveLength(1);
  });

  onEveryStore("ends also if the escalating agent is in a sequence or in a parallel", async (place) => {
    const sessions = place.engine();
    for (const compose of [sequence, parallel]) {
      const inner = compose({ name: "inner", agents: [counter("counter", 2), saying("other", "And on.")] });
      const outer = sequence({
        name: "outer",
        agents: [loop({ name: "rounds", times: 10, agents: [inner] }), saying("last", "After all.")],
      });
      const { session, events } = await finish(outer, { sessions, message: "go" });
      expect(await sessions.state(session)).toEqual({ count: 2 });
      expect(said(events).at(-1)).toBe("last: After all.");
    }
  });

  onEveryStore("runs the given number of times", async (place) => {
    const sessions = place.engine();
    const { session, outcome } = await finish(loop({ name: "rounds", times: 3, agents: [counter("counter", 99)] }), {
      sessions,
      message: "go",
    });
    expect(outcome).toBe("steps");
    expect(await sessions.state(session)).toEqual({ count: 3 });
  });

  onEveryStore("ignores an escalation by a tool that then fails", async (place) => {
    const sessions = place.engine();
    const agent = defineAgent({
      name: "worker",
      model: scriptedModel([{ calls: [{ name: "work" }] }, "Done."]),
      tools: {
        work: tool<AgentState, undefined>({
          description: "Works.",
          run: ({ agent }) => {
            agent?.escalate();
            throw new Error("no");
          },
        }),
      },
    });
    expect((await finish(agent, { sessions, message: "go" })).outcome).toBe("answered");
  });
});

describe("parallel agents", () => {
  onEveryStore("see only their own history, also with similar names; a later agent sees all of it", async (place) => {
    const sessions = place.engine();
    const shown: Record<string, string[]> = {};
    const two = (name: string): Agent =>
      sequence({ name: `${name}s`, agents: [saying(`${name}1`, `${name}.`), listening(name, "Done.", shown)] });
    const agent = sequence({
      name: "all",
      agents: [parallel({ name: "p", agents: [two("a"), two("ab")] }), listening("last", "After all.", shown)],
    });
    const { session } = await finish(agent, { sessions, message: "go" });
    expect(shown["a"]).toEqual(["go", "[a1] said: a."]);
    expect(shown["ab"]).toEqual(["go", "[ab1] said: ab."]);
    expect(shown["last"]?.slice().sort()).toEqual(
      ["go", "[a1] said: a.", "[a] said: Done.", "[ab1] said: ab.", "[ab] said: Done."].sort(),
    );
    // The next invocation too, in another process.
    await finish(listening("later", "Yes.", shown), { sessions: await place.replica(), session, message: "well?" });
    expect(shown["later"]).toHaveLength(7);
  });

  onEveryStore("see only their own history also below an agent used as a tool", async (place) => {
    const sessions = place.engine();
    const shown: Record<string, string[]> = {};
    const inner = sequence({
      name: "inner",
      agents: [
        parallel({
          name: "p",
          agents: [
            saying("fast", "Fast."),
            sequence({ name: "slowly", agents: [saying("slow1", "Slow."), listening("slow2", "Done.", shown)] }),
          ],
        }),
        listening("last", "After all.", shown),
      ],
    });
    const agent = defineAgent({
      name: "root",
      model: scriptedModel([{ calls: [{ name: "ask", arguments: { request: "please" } }] }, "Done."]),
      tools: { ask: inner },
    });
    expect((await finish(agent, { sessions, message: "go" })).outcome).toBe("answered");
    expect(shown["slow2"]).toEqual(["please", "[slow1] said: Slow."]);
    expect(shown["last"]).toHaveLength(4);
  });

  onEveryStore("are read again in commit order, whichever started first", async (place) => {
    const sessions = place.engine();
    const done = gate();
    const agent = parallel({
      name: "p",
      agents: [
        saying("slow", "Slow.", { callbacks: { beforeModel: () => done.opened } }),
        saying("fast", "Fast.", { callbacks: { afterAgent: () => done.open() } }),
      ],
    });
    const { events, session } = await finish(agent, { sessions, message: "go" });
    expect(said(events)).toEqual(["fast: Fast.", "slow: Slow."]);
    const log = await logOf(await place.replica(), session);
    expect(said(log)).toEqual(["fast: Fast.", "slow: Slow."]);
    expect(log.slice(1)).toEqual(events);
  });

  onEveryStore("keep writes to different keys; for one key the last commit wins", async (place) => {
    const sessions = place.engine();
    const first = gate();
    const writing = (name: string, before: Promise<void> | undefined, after?: () => void): Agent =>
      saying(name, "Done.", {
        callbacks: {
          beforeAgent: async ({ state }) => {
            state[name] = true;
            state["app:both"] = name;
            state["temp:list"] = [name];
            delete state["gone"];
            await before;
          },
          afterAgent: () => after?.(),
        },
      });
    const { session } = await sessions.open({ state: { gone: 1 } });
    const agent = parallel({ name: "p", agents: [writing("a", first.opened), writing("b", undefined, first.open)] });
    expect((await finish(agent, { sessions, session, message: "go" })).outcome).toBe("answered");
    expect(await sessions.state(session)).toEqual({ a: true, b: true, "app:both": "a" });
  });

  onEveryStore(
    "merge into one object and append to one list; for a value that both assign, the last one wins and is reported",
    async (place) => {
      const sessions = place.engine();
      const first = gate();
      const writing = (
        name: string,
        before: Promise<void> | undefined,
        write: (state: AgentState) => void,
        after?: () => void,
      ): Agent =>
        saying(name, "Done.", {
          callbacks: {
            beforeAgent: async ({ state }) => {
              write(state);
              await before;
            },
            afterAgent: () => after?.(),
          },
        });
      const { session } = await sessions.open({
        state: { list: [1], fields: {}, "user:list": [1], count: 0 },
      });
      const late = (state: AgentState): void => {
        state["list"].push("late");
        state["fields"].late = true;
        state["user:list"].push("late");
        state["count"]++;
      };
      const early = (state: AgentState): void => {
        state["list"].push("early");
        state["fields"].early = true;
        state["user:list"].push("early");
        state["count"]++;
      };
      const agents = [writing("late", first.opened, late), writing("early", undefined, early, first.open)];
      const { events } = await finish(parallel({ name: "p", agents }), { sessions, session, message: "go" });
      const state = await sessions.state(session);
      for (const key of ["list", "user:list"]) expect(state[key]).toEqual([1, "early", "late"]);
      expect(state).toMatchObject({ fields: { early: true, late: true }, count: 1 });
      expect(events.flatMap((event) => ("overwrote" in event ? event.overwrote : []))).toEqual(["/count"]);
    },
  );

  onEveryStore("all end before the failure of one is reported", async (place) => {
    const sessions = place.engine();
    const agent = parallel({
      name: "p",
      agents: [
        saying("broken", "never said", {
          callbacks: {
            beforeAgent: () => {
              throw new Error("no");
            },
          },
        }),
        saying("fine", "Fine.", { outputKey: "fine" }),
      ],
    });
    const { outcome, session } = await finish(agent, { sessions, message: "go" });
    expect(outcome).toBe("failed");
    expect(await sessions.state(session)).toEqual({ fine: "Fine." });
  });
});

describe("an agent used as a tool", () => {
  onEveryStore(
    "sees the current state at each call, and nothing of the conversation; its writes are stored",
    async (place) => {
      const sessions = place.engine();
      const shown: { input: string[]; instructions: string | undefined }[] = [];
      const helper = defineAgent({
        name: "helper",
        description: "Helps.",
        instruction: "k is {k}",
        model: scriptedModel(({ input, instructions }) => {
          shown.push({ input: texts(input), instructions });
          return `Helped ${shown.length}.`;
        }),
        callbacks: { beforeAgent: ({ state }) => void (state["app:helped"] = (state["app:helped"] ?? 0) + 1) },
      });
      const help = (request: string) => ({ calls: [{ name: "help", arguments: { request } }] });
      const agent = defineAgent({
        name: "root",
        model: scriptedModel([help("one"), { calls: [{ name: "raise" }] }, help("two"), "Done."]),
        tools: {
          help: helper,
          raise: tool<AgentState, undefined>({ description: "Raises k.", run: ({ state }) => void state["k"]++ }),
        },
      });
      const { session } = await sessions.open({ state: { k: 1 } });
      const { events } = await finish(agent, { sessions, session, message: "go" });
      expect(shown).toEqual([
        { input: ["one"], instructions: "k is 1" },
        { input: ["two"], instructions: "k is 2" },
      ]);
      const outputs = (events as Committed[]).flatMap((event) =>
        event.type === "tools.answered" ? texts(event.items) : [],
      );
      expect(outputs).toEqual(["= Helped 1.", "= null", "= Helped 2."]);
      expect(await sessions.state(session)).toEqual({ k: 2, "app:helped": 2 });
      const listed = [];
      for await (const info of sessions.list()) listed.push(info.session);
      expect(listed).toEqual([session]);
    },
  );

  onEveryStore("is asked again at each call, also by a model that repeats call ids", async (place) => {
    const sessions = place.engine();
    const shown: string[][] = [];
    const helper = defineAgent({
      name: "helper",
      model: scriptedModel(({ input }) => {
        shown.push(texts(input));
        return "Helped.";
      }),
    });
    const call = (request: string) => ({
      output: [{ type: "function_call", call_id: "call_0", name: "ask", arguments: JSON.stringify({ request }) }],
    });
    const agent = defineAgent({
      name: "root",
      model: scriptedModel([call("one"), call("two"), "Done."]),
      tools: { ask: helper },
    });
    expect((await finish(agent, { sessions, message: "go" })).outcome).toBe("answered");
    expect(shown).toEqual([["one"], ["two"]]);
  });

  onEveryStore("that fails is a failed tool; invalid arguments get a helpful message", async (place) => {
    const sessions = place.engine();
    const outputs: string[] = [];
    const broken = defineAgent({ name: "broken", model: scriptedModel([]) });
    const agent = defineAgent({
      name: "root",
      model: scriptedModel([
        {
          calls: [
            { name: "ask", arguments: { request: "please" } },
            { name: "ask", arguments: { wish: 1 } },
          ],
        },
        "Done.",
      ]),
      tools: { ask: broken },
      callbacks: { onToolError: (_, { code, message }) => void outputs.push(`${code}: ${message}`) },
    });
    expect((await finish(agent, { sessions, message: "go" })).outcome).toBe("answered");
    expect(outputs.sort()).toEqual([
      "invalid_input: the arguments of ask are wrong: `request` must be a text",
      expect.stringMatching(/^tool_failed: the agent behind ask failed: /),
    ]);
  });

  onEveryStore("commits nothing more after the outer run was cancelled", async (place) => {
    const sessions = place.engine();
    const controller = new AbortController();
    const helper = saying("helper", "never kept", {
      callbacks: { afterModel: () => controller.abort() },
      outputKey: "helped",
    });
    const agent = defineAgent({
      name: "root",
      model: scriptedModel([{ calls: [{ name: "help", arguments: { request: "x" } }] }, "Done."]),
      tools: { help: helper },
    });
    const { session } = await sessions.open();
    const options = { sessions, session, message: "go", signal: controller.signal };
    expect(await codeOf(finish(agent, options))).toBe("run_cancelled");
    expect(await sessions.state(session)).toEqual({});
    expect((await stepsOf(sessions, session)).at(-1)).toMatchObject({ type: "model.answered", agent: "root" });
  });
});

describe("transfers", () => {
  const handing = (to: string) => ({ calls: [{ name: "transfer_to_agent", arguments: { agent: to } }] });

  /** Transfers to the agent that the message names. */
  const router = (name: string, options: Options = {}): Agent =>
    defineAgent({
      name,
      model: scriptedModel(({ input }) => {
        const last = texts(input).findLast((text) => !text.startsWith("[") && !text.startsWith("="));
        const to = /^to (\w+)/.exec(last ?? "")?.[1];
        return to === undefined || to === name ? `This is ${name}.` : handing(to);
      }),
      ...options,
    });

  onEveryStore(
    "give control to the target, also in the next turn and in another process, and can return it",
    async (place) => {
      const sessions = place.engine();
      const family = (): Agent => router("root", { agents: [router("billing"), router("support")] });
      const { session } = await sessions.open();
      const turn = async (message: string, on = sessions): Promise<string[]> =>
        said((await finish(family(), { sessions: on, session, message })).events).filter(
          (text) => !text.endsWith(": "),
        );
      expect(await turn("hello")).toEqual(["root: This is root."]);
      expect(await turn("to billing")).toEqual(["billing: This is billing."]);
      expect(await turn("hello", await place.replica())).toEqual(["billing: This is billing."]);
      expect(await turn("to support")).toEqual(["support: This is support."]);
      expect(await turn("to root")).toEqual(["root: This is root."]);
      expect(await turn("hello")).toEqual(["root: This is root."]);
      const { invocation } = await finish(family(), { sessions, session, message: "to billing" });
      await sessions.rewind(session, { before: invocation });
      expect(await turn("hello")).toEqual(["root: This is root."]);
    },
  );

  onEveryStore("to a missing agent are failed calls, which list the existing agents", async (place) => {
    const sessions = place.engine();
    const agent = defineAgent({
      name: "root",
      model: scriptedModel([handing("nobody"), "Then not."]),
      agents: [router("billing")],
    });
    const { events } = await finish(agent, { sessions, message: "go" });
    expect(events.find(({ type }) => type === "tools.answered")).toMatchObject({
      failed: [{ code: "invalid_input", message: "`agent` must be one of: billing" }],
    });
  });

  onEveryStore("inside an agent used as a tool stay inside it", async (place) => {
    const sessions = place.engine();
    const helper = defineAgent({
      name: "helper",
      model: scriptedModel([handing("worker")]),
      agents: [saying("worker", "Worked.")],
    });
    const billing = defineAgent({
      name: "billing",
      model: scriptedModel(({ input }) => {
        const last = input.at(-1);
        if (last?.type === "function_call_output") return "Billed.";
        return texts(input).at(-1) === "help"
          ? { calls: [{ name: "help", arguments: { request: "x" } }] }
          : "Billing here.";
      }),
      tools: { help: helper },
    });
    const root = router("root", { agents: [billing] });
    const { session } = await finish(root, { sessions, message: "to billing" });
    const helped = await finish(root, { sessions, session, message: "help" });
    expect(said(helped.events)).toContain("worker: Worked.");
    expect(said(helped.events).at(-1)).toBe("billing: Billed.");
    expect(said((await finish(root, { sessions, session, message: "hello" })).events)).toEqual([
      "billing: Billing here.",
    ]);
  });

  onEveryStore("to a sequence, or inside one, do not affect the next turn", async (place) => {
    const sessions = place.engine();
    const flow = sequence({ name: "flow", agents: [router("first", { agents: [router("second")] })] });
    const root = router("root", { agents: [flow] });
    const { session, events } = await finish(root, { sessions, message: "to flow" });
    expect(said(events).at(-1)).toMatch(/^first: /);
    expect(said((await finish(root, { sessions, session, message: "hello" })).events)).toEqual(["root: This is root."]);
    await finish(flow, { sessions, session, message: "to second" });
    expect(said((await finish(flow, { sessions, session, message: "hello" })).events)).toEqual([
      "first: This is first.",
    ]);
  });
});
