// askModel(): the step that asks the model, with its request, its callbacks and its event.
import type { AgentContext, ModelAgent, ReadonlyAgentContext } from "../core/agent.ts";
import { HoldfastError, withCode } from "../core/errors.ts";
import type { EventOf } from "../core/event.ts";
import { copyJson, equalJson, type Json } from "../core/json.ts";
import {
  answerText,
  faultInItems,
  isFunctionCall,
  type Item,
  type ModelRequest,
  type ModelResponse,
  type ToolSchema,
} from "../core/model.ts";
import { cancelledRun, firstValue, marked, orAborted, toResponse } from "./callbacks.ts";
import { clientCallIds, itemsFor } from "./sight.ts";
import { placed, type Invocation } from "./invocation.ts";
import type { Place } from "./world.ts";
import type { AgentState } from "../core/shared-state.ts";

type Answered = EventOf<"model.answered"> & { version: number };

/** Asks the model, unless its answer was committed before the run was interrupted. */
export async function askModel(
  invocation: Invocation,
  agent: ModelAgent,
  place: Place,
  tools: ToolSchema[],
  signal: AbortSignal,
): Promise<Answered> {
  const before = invocation.next(place, "model.answered");
  if (before) return before;
  const { callbacks, outputKey } = agent;
  const working = invocation.working();
  const draft = working.draft();
  const context = invocation.context(place, draft);
  try {
    const request = await buildRequest(invocation, agent, place, tools);
    const instead = await firstValue("beforeModel", callbacks.beforeModel, context, request);
    let answer: Answer;
    if (instead === undefined) {
      const ask = () => invocation.world.ask(place, () => askOnce(invocation, agent, place, request, signal));
      const amend: Amend = (asked, live) => invocation.world.amend(place, asked, live);
      answer = await askWithCallbacks(ask, agent, context, request, signal, amend);
    } else answer = { response: toResponse(instead, "beforeModel") };
    const { response, ...about } = answer;
    // A model that ignores the signal may answer after the run was cancelled.
    if (signal.aborted) throw cancelledRun(signal);
    const { output, usage, ...rest } = copyJson(response, "the model's answer", "drop") as unknown as ModelResponse;
    // Adds the ids again, because callbacks may have changed the calls.
    for (const { call_id } of output.filter(isFunctionCall)) invocation.callIds.add(call_id);
    const text = answerText(output);
    if (outputKey !== undefined && text !== "" && !output.some(isFunctionCall)) draft.state[outputKey] = text;
    working.keep(draft);
    return await invocation.commit(
      {
        type: "model.answered" as const,
        ...placed(place, invocation.id),
        items: output,
        ...about,
        ...(usage && { usage }),
        ...(Object.keys(rest).length > 0 && { response: rest as { [field: string]: Json } }),
      },
      working,
    );
  } finally {
    draft.close();
  }
}

interface Answer {
  response: ModelResponse;
  model?: string;
  failure?: Answered["failure"] & object;
  raw?: Answered["raw"] & object;
}

type Live = (asked: ModelResponse) => Promise<ModelResponse>;
type Amend = (asked: ModelResponse, live: Live) => Promise<ModelResponse>;

/** Asks the model and runs the callbacks after it. */
async function askWithCallbacks(
  ask: () => Promise<ModelResponse>,
  { callbacks, model }: ModelAgent,
  context: AgentContext,
  request: ModelRequest,
  signal: AbortSignal,
  amend: Amend,
): Promise<Answer> {
  const answer: Answer = { response: { output: [], status: "completed" }, model: model.name };
  try {
    answer.response = await ask();
  } catch (thrown) {
    const error = withCode("model_failed", "the model", thrown);
    const { onModelError } = callbacks;
    const value = signal.aborted ? undefined : await firstValue("onModelError", onModelError, context, error, request);
    if (value === undefined) throw error;
    answer.response = toResponse(value, "onModelError");
    answer.failure = { code: error.code, message: error.message };
  }
  const { afterModel } = callbacks;
  if (afterModel === undefined) return answer;
  const before = copyJson(answer.response, "the model's answer", "drop");
  answer.response = await amend(answer.response, async (asked) => {
    const after = await firstValue("afterModel", afterModel, context, asked);
    return after === undefined ? asked : toResponse(after, "afterModel");
  });
  const isSame = equalJson(before, copyJson(answer.response, "the model's answer", "drop"));
  // A replay needs the answer from before `afterModel`. If the model failed, the replay repeats the failure instead.
  if (!isSame && !answer.failure) answer.raw = before as { [field: string]: Json };
  return answer;
}

async function buildRequest(
  invocation: Invocation,
  agent: ModelAgent,
  place: Place,
  tools: ToolSchema[],
): Promise<ModelRequest> {
  const { instruction } = agent;
  const instructions =
    typeof instruction === "string"
      ? fillInstruction(instruction, invocation.state())
      : await askInstruction(instruction, invocation.readonlyContext(place));
  // The request is a copy, so that a callback can change it without affecting the next request.
  const own = agent.callbacks.beforeModel === undefined ? [...tools] : structuredClone(tools);
  const { agent: name, branch, alone } = place;
  const input = await itemsFor(invocation.entered, { agent: name, branch, alone });
  return { ...(instructions !== "" && { instructions }), input, ...(tools.length > 0 && { tools: own }) };
}

async function askInstruction(
  instruction: Exclude<ModelAgent["instruction"], string>,
  context: ReadonlyAgentContext,
): Promise<string> {
  try {
    return await orAborted(context.signal, instruction(context));
  } catch (thrown) {
    throw marked(thrown, "instruction", context.agent);
  }
}

async function askOnce(
  invocation: Invocation,
  { model }: ModelAgent,
  place: Place,
  request: ModelRequest,
  signal: AbortSignal,
): Promise<ModelResponse> {
  const onPiece = invocation.isStreaming
    ? (piece: Parameters<Invocation["piece"]>[1]) => invocation.piece(place, piece)
    : undefined;
  const response = await orAborted(signal, model.respond(request, { signal, onPiece }));
  // Waits until the reader has received all pieces of the answer, before callbacks run.
  await invocation.taken();
  const earlier = await clientCallIds(invocation.entered, place);
  const output = withCallIds((response as Partial<ModelResponse> | undefined)?.output, invocation.callIds, earlier);
  const fault = faultInItems(output);
  if (fault) throw new HoldfastError("model_failed", `the answer of ${model.name} cannot be read: ${fault}`);
  return { ...response, output: output as Item[] };
}

/**
 * Gives every call an id that is unique in its turn. Some servers send no ids or repeat them, which would mix up
 * results. A client may send a result late. So the ids in `earlier`, of calls that waited for a client, are not used
 * again either.
 */
function withCallIds(output: unknown, used: Set<string>, earlier: ReadonlySet<string>): unknown {
  if (!Array.isArray(output)) return output;
  return output.map((item: unknown) => {
    if ((item as Item | null)?.type !== "function_call") return item;
    const { call_id: given } = item as { call_id?: unknown };
    const wanted = typeof given === "string" && given !== "" ? given : "call";
    let call_id = wanted;
    for (let more = 2; used.has(call_id) || earlier.has(call_id); more++) call_id = `${wanted}_${more}`;
    used.add(call_id);
    return call_id === given ? item : { ...(item as object), call_id };
  });
}

/** Matches `{key}`, `{user:key}` and `{key?}`. Other braces, such as braces in JSON, are left unchanged. */
const reference = /\{((?:user:|app:|temp:)?[A-Za-z_][A-Za-z0-9_]*)(\?)?\}/g;

/** Returns the instruction with values from the state filled in. A missing key is an error, unless it ends with "?". */
function fillInstruction(instruction: string, state: AgentState): string {
  return instruction.replaceAll(reference, (_, key: string, optional: string | undefined) => {
    const value: unknown = Object.hasOwn(state, key) ? state[key] : undefined;
    if (value !== undefined && value !== null) return typeof value === "string" ? value : JSON.stringify(value);
    if (optional) return "";
    const message = `the instruction names {${key}}, which the state does not have; write {${key}?} if it may be missing`;
    throw new HoldfastError("missing_state", message, { detail: { key } });
  });
}
