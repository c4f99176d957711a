// runAgent(): runs an agent with its callbacks, whether it is a model with tools or a composition of agents. Every step
// first looks for its own event in the log, so a resumed run does not repeat committed steps.
import { setMaxListeners } from "node:events";
import type { Agent, CallOfTool, Composition, ModelAgent, Said } from "../core/agent.ts";
import type { ToolDefinition } from "../core/environment.ts";
import { HoldfastError } from "../core/errors.ts";
import type { AgentOutcome, EventOf } from "../core/event.ts";
import { copyJson } from "../core/json.ts";
import { lastWords } from "../core/last-words.ts";
import { answerText, isFunctionCall, type Item, type ToolSchema } from "../core/model.ts";
import { cancelledRun, firstValue, marked, orAborted, toItems } from "./callbacks.ts";
import { clientToolsIn, collision, Waiting } from "./client-tools.ts";
import { ownTools } from "./list-tools.ts";
import { createFamily, transferSchema } from "./transfer.ts";
import { Failed, placed, type Invocation } from "./invocation.ts";
import type { Place } from "./world.ts";
import { askModel } from "./model-step.ts";
import type { Answerer } from "./tool-call.ts";
import { runTools } from "./tools-step.ts";

const defaultSteps = 100;
const defaultEmpty = 3;
const mostHandOvers = 20;

/** The outcome of an agent's run, and the agent that it transfers to, if any. */
interface Ended {
  outcome: AgentOutcome;
  transfer?: string | undefined;
}

/** Runs an agent, and the agents that it transfers to. */
export async function runAgent(invocation: Invocation, agent: Agent, place: Place): Promise<AgentOutcome> {
  const began = await begin(invocation, agent, place);
  if (began?.items) return (await end(invocation, place, { outcome: "replaced" })).outcome;
  let ended = await (agent.kind === "model" ? runModel(invocation, agent, place) : compose(invocation, agent, place));
  // Without a limit, two agents could transfer to each other forever.
  if (ended.transfer !== undefined && place.path.split(">").length > mostHandOvers) ended = { outcome: "steps" };
  const { outcome } = await end(invocation, place, ended, agent);
  if (ended.transfer === undefined) return outcome;
  const next = invocation.family.find(ended.transfer);
  if (!next) throw new HoldfastError("invalid_agent", `there is no agent ${ended.transfer} to transfer to`);
  return runAgent(invocation, next, { ...place, agent: next.name, path: `${place.path}>${next.name}` });
}

async function begin(invocation: Invocation, agent: Agent, place: Place): Promise<EventOf<"agent.began"> | undefined> {
  const { beforeAgent } = agent.callbacks;
  const before = invocation.next(place, "agent.began");
  if (before || beforeAgent === undefined) return before;
  const working = invocation.working();
  const draft = working.draft();
  try {
    const said = await firstValue("beforeAgent", beforeAgent, invocation.context(place, draft));
    assertRunning(invocation);
    const items = copyItems(said, "beforeAgent");
    // The callback's message is the agent's answer, so it is stored under `outputKey`.
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

/** Copies a callback's message as items. */
function copyItems(said: Said | undefined, by: string): Item[] | undefined {
  if (said === undefined) return undefined;
  return copyJson(toItems(said, by), `what ${by} said`, "drop") as Item[];
}

/** Ends a run. Without `agent`, no callbacks run, because `beforeAgent` returned the answer. */
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
    const said = afterAgent && (await firstValue("afterAgent", afterAgent, invocation.context(place, draft)));
    assertRunning(invocation);
    const items = copyItems(said, "afterAgent");
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

/** Asks the model and runs its calls until it answers or a limit is reached. */
async function runModel(invocation: Invocation, agent: ModelAgent, place: Place): Promise<Ended> {
  const { steps = defaultSteps, tokens = Infinity, seconds = Infinity, empty = defaultEmpty } = agent.limits;
  const { schemas, answerers } = await listTools(invocation, agent, place).catch((thrown: unknown) =>
    invocation.fail(place, "tools", thrown),
  );
  const clock = seconds < Infinity ? AbortSignal.timeout(Math.min(seconds * 1000, 2 ** 31 - 1)) : undefined;
  const signal = clock ? AbortSignal.any([invocation.signal, clock]) : invocation.signal;
  // Removes the limit on listeners, because every running handler listens to this signal.
  setMaxListeners(0, signal);
  const isLate = (): boolean => invocation.world.isLate(place, clock?.aborted === true && !invocation.signal.aborted);
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
      if (thrown instanceof Waiting) throw thrown;
      if (isLate()) return { outcome: "seconds" };
      return invocation.fail(place, "tools", thrown);
    }
  }
}

/** Lists a model's tools, with the code that answers their calls. */
async function listTools(
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
  for (const schema of ownTools(agent)) {
    const made = agent.tools.get(schema.name) as ToolDefinition | Agent;
    add(schema, "run" in made ? { tool: made } : { agent: made });
  }
  for (const toolset of agent.toolsets) {
    try {
      const listed = toolset.list(invocation.readonlyContext(place));
      for (const schema of await orAborted(invocation.signal, listed)) add(schema, { toolset });
    } catch (thrown) {
      throw marked(thrown, "a toolset", agent.name);
    }
  }
  const targets = invocation.family.targets(agent);
  if (targets.length > 0) add(transferSchema(targets), { targets: targets.map(({ name }) => name) });
  // An agent used as a tool cannot wait for the client, because its caller's other calls run at the same time.
  if (place.alone) return { schemas, answerers };
  for (const schema of agent.clientTools) add(schema, { client: true });
  for (const schema of clientToolsIn(invocation.entered.steps)) {
    if (answerers.has(schema.name)) throw collision(schema.name, agent.name);
    add(schema, { client: true });
  }
  return { schemas, answerers };
}

/** Runs an agent as a tool of another agent, in its own part of the log. Returns its last text. */
async function runAsTool(invocation: Invocation, agent: Agent, place: Place, call: CallOfTool): Promise<string> {
  const { request } = Object(call.input) as { request?: unknown };
  if (typeof request !== "string") {
    throw new HoldfastError("invalid_input", `the arguments of ${call.tool} are wrong: \`request\` must be a text`);
  }
  const path = `${place.path}#${call.call}/${agent.name}`;
  // An agent used as a tool can transfer only within its own family.
  await runAgent({ ...invocation, family: createFamily(agent) }, agent, {
    agent: agent.name,
    path,
    branch: place.branch,
    isOutermost: false,
    alone: { path, request: [{ type: "message", role: "user", content: request }] },
  });
  return lastWords(invocation.entered.steps, (event) => event.path.startsWith(path));
}

/** Orders the errors of parallel agents: errors that end the run, then failures, then waits for the client. */
const rank = (thrown: unknown): number => (thrown instanceof Waiting ? 2 : thrown instanceof Failed ? 1 : 0);

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
        // Escalating also ends the compositions around this composition, up to the nearest loop.
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
      // All agents have ended. A failure is reported only when nothing is running any more.
      const failed = runs.filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
      const [first] = failed.sort((a, b) => rank(a.reason) - rank(b.reason));
      if (first) throw first.reason;
      const isEscalated = runs.some((run) => run.status === "fulfilled" && run.value === "escalated");
      return { outcome: isEscalated ? "escalated" : "answered" };
    }
  }
}
