// Runs an agent from its beginning to its end: callbacks around it, and inside a model with its tools, or other agents.
// What was committed before a run was cut short is not done again: every step looks for itself in the log first.
import { setMaxListeners } from "node:events";
import { agentSchema, type Agent, type CallOfTool, type Composition, type ModelAgent } from "../core/agent.ts";
import { HoldfastError } from "../core/errors.ts";
import type { AgentOutcome, EventOf } from "../core/event.ts";
import { copyJson } from "../core/json.ts";
import { answerText, isFunctionCall, type Item, type ToolSchema } from "../core/model.ts";
import { toJsonSchema } from "../core/schema.ts";
import { cancelledRun, firstValue, itemsOf } from "./callbacks.ts";
import { familyOf, transferSchema } from "./family.ts";
import { Failed, placed, type Invocation, type Place } from "./invocation.ts";
import { askModel } from "./model-step.ts";
import type { Answerer } from "./tool-call.ts";
import { runTools } from "./tools-step.ts";

const defaultSteps = 100;
const defaultEmpty = 3;
const mostHandOvers = 20;

/** How a run ended, and who goes on. */
interface Ended {
  outcome: AgentOutcome;
  transfer?: string | undefined;
}

/** Runs an agent, and whoever it hands over to. */
export async function runAgent(invocation: Invocation, agent: Agent, place: Place): Promise<AgentOutcome> {
  const began = await begin(invocation, agent, place);
  if (began?.items) return (await end(invocation, place, { outcome: "replaced" })).outcome;
  let ended = await (agent.kind === "model" ? runModel(invocation, agent, place) : compose(invocation, agent, place));
  // Two agents may hand over to each other without end.
  if (ended.transfer !== undefined && place.path.split(">").length > mostHandOvers) ended = { outcome: "steps" };
  const { outcome } = await end(invocation, place, ended, agent);
  if (ended.transfer === undefined) return outcome;
  const next = invocation.family.find(ended.transfer);
  if (!next) throw new HoldfastError("invalid_agent", `there is no agent ${ended.transfer} to hand over to`);
  return runAgent(invocation, next, { ...place, agent: next.name, path: `${place.path}>${next.name}` });
}

async function begin(invocation: Invocation, agent: Agent, place: Place): Promise<EventOf<"agent.began"> | undefined> {
  const { beforeAgent } = agent.callbacks;
  const before = invocation.next(place, "agent.began");
  if (before || beforeAgent === undefined) return before;
  const working = invocation.working();
  const draft = working.draft();
  try {
    const said = await firstValue(beforeAgent, invocation.context(place, draft));
    assertRunning(invocation);
    const items =
      said === undefined
        ? undefined
        : (copyJson(itemsOf(said, "beforeAgent"), "what beforeAgent said", "drop") as Item[]);
    // It is the agent's answer, also for whoever reads it in the state.
    if (items && agent.kind === "model" && agent.outputKey !== undefined)
      draft.state[agent.outputKey] = answerText(items);
    working.keep(draft);
    return await invocation.commit(
      { type: "agent.began", ...placed(place, invocation.id), ...(items && { items }) },
      working,
    );
  } catch (thrown) {
    return invocation.fail(place, "beforeAgent", thrown);
  } finally {
    draft.close();
  }
}

/** Without an agent its callbacks are left out: another one has answered in its place. */
async function end(
  invocation: Invocation,
  place: Place,
  { outcome, transfer }: Ended,
  agent?: Agent,
): Promise<EventOf<"agent.ended">> {
  const before = invocation.next(place, "agent.ended");
  if (before) return before;
  const working = invocation.working();
  const draft = working.draft();
  try {
    const afterAgent = agent?.callbacks.afterAgent;
    const said = afterAgent && (await firstValue(afterAgent, invocation.context(place, draft)));
    assertRunning(invocation);
    const items =
      said === undefined
        ? undefined
        : (copyJson(itemsOf(said, "afterAgent"), "what afterAgent said", "drop") as Item[]);
    working.keep(draft);
    return await invocation.commit(
      {
        type: "agent.ended" as const,
        ...placed(place, invocation.id),
        outcome,
        ...(items && { items }),
        ...(place.isOutermost && transfer === undefined && { last: true as const }),
      },
      working,
    );
  } catch (thrown) {
    return invocation.fail(place, "afterAgent", thrown);
  } finally {
    draft.close();
  }
}

function assertRunning({ signal }: Invocation): void {
  if (signal.aborted) throw cancelledRun(signal);
}

/** Asks the model and runs its calls until it has answered, or a limit is reached. */
async function runModel(invocation: Invocation, agent: ModelAgent, place: Place): Promise<Ended> {
  const { steps = defaultSteps, tokens = Infinity, seconds = Infinity, empty = defaultEmpty } = agent.limits;
  const { schemas, answerers } = await toolsOf(invocation, agent, place).catch((thrown: unknown) =>
    invocation.fail(place, "tools", thrown),
  );
  const clock = seconds < Infinity ? AbortSignal.timeout(Math.min(seconds * 1000, 2 ** 31 - 1)) : undefined;
  const signal = clock ? AbortSignal.any([invocation.signal, clock]) : invocation.signal;
  // Every handler that runs listens to it.
  setMaxListeners(0, signal);
  const isLate = (): boolean =>
    invocation.standIn?.isLate(place) ?? (clock?.aborted === true && !invocation.signal.aborted);
  const runChild = (child: Agent, call: CallOfTool): Promise<string> =>
    runAsTool({ ...invocation, signal }, child, place, call);
  let [spent, silent] = [0, 0];
  for (let step = 0; ; step++) {
    assertRunning(invocation);
    if (step >= steps) return { outcome: "steps" };
    if (spent >= tokens) return { outcome: "tokens" };
    if (isLate()) return { outcome: "seconds" };
    let answer: EventOf<"model.answered"> & { version: number };
    try {
      answer = await askModel(invocation, agent, place, schemas, signal);
    } catch (thrown) {
      if (isLate()) return { outcome: "seconds" };
      return invocation.fail(place, "model", thrown);
    }
    spent += answer.usage?.total_tokens ?? 0;
    const calls = answer.items.filter(isFunctionCall);
    if (calls.length === 0) {
      if (answerText(answer.items) !== "") return { outcome: "answered" };
      if (++silent >= empty) return { outcome: "empty" };
      continue;
    }
    silent = 0;
    if (isLate()) return { outcome: "seconds" };
    try {
      const options = { invocation, agent, place, answer, answerers, signal, runAgent: runChild };
      const { transfer, escalate } = await runTools(options, calls);
      if (transfer !== undefined) return { outcome: "transferred", transfer };
      if (escalate) return { outcome: "escalated" };
    } catch (thrown) {
      if (isLate()) return { outcome: "seconds" };
      return invocation.fail(place, "tools", thrown);
    }
  }
}

/** All that a model can call, and what answers each. */
async function toolsOf(
  invocation: Invocation,
  agent: ModelAgent,
  place: Place,
): Promise<{ schemas: ToolSchema[]; answerers: Map<string, Answerer> }> {
  const schemas: ToolSchema[] = [];
  const answerers = new Map<string, Answerer>();
  const add = (schema: ToolSchema, answerer: Answerer): void => {
    if (answerers.has(schema.name)) {
      throw new HoldfastError("invalid_agent", `two tools of ${agent.name} are called ${schema.name}`);
    }
    schemas.push(schema);
    answerers.set(schema.name, answerer);
  };
  for (const [name, made] of agent.tools) {
    if (!("run" in made)) {
      add(agentSchema(name, made), { agent: made });
      continue;
    }
    const parameters = { type: "object", properties: {}, ...toJsonSchema(made.input) };
    add({ type: "function", name, description: made.description, parameters }, { tool: made });
  }
  for (const toolset of agent.toolsets) {
    for (const schema of await toolset.list(invocation.readonlyContext(place))) add(schema, { toolset });
  }
  const targets = invocation.family.targets(agent);
  if (targets.length > 0) add(transferSchema(targets), { targets: targets.map(({ name }) => name) });
  return { schemas, answerers };
}

/** Runs an agent for another one, in its own part of the log. Gives what it said last. */
async function runAsTool(invocation: Invocation, agent: Agent, place: Place, call: CallOfTool): Promise<string> {
  const { request } = Object(call.input) as { request?: unknown };
  if (typeof request !== "string") {
    throw new HoldfastError("invalid_input", `the arguments of ${call.tool} are wrong: \`request\` must be a text`);
  }
  const path = `${place.path}#${call.call}/${agent.name}`;
  // It has a family of its own to hand over to.
  await runAgent({ ...invocation, family: familyOf(agent) }, agent, {
    agent: agent.name,
    path,
    branch: place.branch,
    isOutermost: false,
    alone: { path, request: [{ type: "message", role: "user", content: request }] },
  });
  const said = invocation.entered.steps.findLast(
    (event) => "path" in event && event.path.startsWith(path) && answerText(event.items ?? []) !== "",
  );
  return answerText((said as EventOf<"model.answered"> | undefined)?.items ?? []);
}

async function compose(invocation: Invocation, agent: Composition, place: Place): Promise<Ended> {
  const inside = (child: Agent, path: string, branch = place.branch): Promise<AgentOutcome> =>
    runAgent(invocation, child, {
      ...place,
      agent: child.name,
      path: `${place.path}/${path}`,
      branch,
      isOutermost: false,
    });
  switch (agent.kind) {
    case "sequence":
      for (const child of agent.agents) {
        // Goes up to the loop around it.
        if ((await inside(child, child.name)) === "escalated") return { outcome: "escalated" };
      }
      return { outcome: "answered" };
    case "loop":
      for (let round = 1; round <= agent.times; round++) {
        for (const child of agent.agents) {
          if ((await inside(child, `${round}.${child.name}`)) === "escalated") return { outcome: "answered" };
        }
      }
      return { outcome: "steps" };
    case "parallel": {
      const branch = (child: Agent): string =>
        `${place.branch === undefined ? "" : `${place.branch}/`}${place.path}.${child.name}`;
      const runs = await Promise.allSettled(agent.agents.map((child) => inside(child, child.name, branch(child))));
      // All have come to an end: what failed is told when nothing is under way any more.
      const failed = runs.filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
      const [first] = failed.sort((a, b) => Number(a.reason instanceof Failed) - Number(b.reason instanceof Failed));
      if (first) throw first.reason;
      const isEscalated = runs.some((run) => run.status === "fulfilled" && run.value === "escalated");
      return { outcome: isEscalated ? "escalated" : "answered" };
    }
  }
}
