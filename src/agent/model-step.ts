// The step that asks the model: what it is shown, the callbacks around it, and the one event that it comes to.
import type { AgentContext, ModelAgent } from "../core/agent.ts";
import { HoldfastError, isHoldfastError, messageOf } from "../core/errors.ts";
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
import { cancelledRun, firstValue, orAborted, responseOf } from "./callbacks.ts";
import { itemsFor } from "./sight.ts";
import { fillInstruction } from "./instruction.ts";
import { placed, type Invocation, type Place } from "./invocation.ts";

type Answered = EventOf<"model.answered"> & { version: number };

/** Asks the model, unless it was asked before the run was cut short. */
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
    const request = await requestOf(invocation, agent, place, tools);
    const instead = await firstValue(callbacks.beforeModel, context, request);
    let answer: Answer;
    if (instead === undefined) {
      const ask = () => answerOf(invocation, agent, place, request, signal);
      answer = await askWithCallbacks(
        ask,
        agent,
        context,
        request,
        signal,
        invocation.standIn?.isFinal(place) ?? false,
      );
    } else answer = { response: responseOf(instead, "beforeModel") };
    const { response, ...about } = answer;
    // A model that does not look at the signal may have answered all the same.
    if (signal.aborted) throw cancelledRun(signal);
    const { output, usage, ...rest } = copyJson(response, "the model's answer", "drop") as unknown as ModelResponse;
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

/** Asks the model, with the callbacks after it. `isFinal`: a log has only the answer as `afterModel` left it. */
async function askWithCallbacks(
  ask: () => Promise<ModelResponse>,
  { callbacks, model }: ModelAgent,
  context: AgentContext,
  request: ModelRequest,
  signal: AbortSignal,
  isFinal: boolean,
): Promise<Answer> {
  const answer: Answer = { response: { output: [], status: "completed" }, model: model.name };
  try {
    answer.response = await ask();
  } catch (thrown) {
    const error = modelError(thrown);
    const value = signal.aborted ? undefined : await firstValue(callbacks.onModelError, context, error, request);
    if (value === undefined) throw error;
    answer.response = responseOf(value, "onModelError");
    answer.failure = { code: error.code, message: error.message };
  }
  if (callbacks.afterModel === undefined) return answer;
  const asked = answer.response;
  const before = copyJson(asked, "the model's answer", "drop");
  const after = await firstValue(callbacks.afterModel, context, isFinal ? structuredClone(asked) : asked);
  if (isFinal) return answer;
  if (after !== undefined) answer.response = responseOf(after, "afterModel");
  const isSame = equalJson(before, copyJson(answer.response, "the model's answer", "drop"));
  // A failure is replayed from its own record.
  if (!isSame && !answer.failure) answer.raw = before as { [field: string]: Json };
  return answer;
}

async function requestOf(
  invocation: Invocation,
  agent: ModelAgent,
  place: Place,
  tools: ToolSchema[],
): Promise<ModelRequest> {
  const { instruction } = agent;
  const instructions =
    typeof instruction === "string"
      ? fillInstruction(instruction, invocation.state())
      : await instruction(invocation.readonlyContext(place));
  // A callback may change the request, and what it does to this one must not show in the next.
  const own = agent.callbacks.beforeModel === undefined ? [...tools] : structuredClone(tools);
  const sight = { agent: place.agent, branch: place.branch, alone: place.alone?.path };
  const seen = await itemsFor(invocation.entered, sight);
  const input = place.alone ? [...place.alone.request, ...seen] : seen;
  return { ...(instructions !== "" && { instructions }), input, ...(tools.length > 0 && { tools: own }) };
}

async function answerOf(
  invocation: Invocation,
  { model }: ModelAgent,
  place: Place,
  request: ModelRequest,
  signal: AbortSignal,
): Promise<ModelResponse> {
  if (invocation.standIn) return invocation.standIn.answer(place);
  const onPiece = invocation.isStreaming
    ? (piece: Parameters<Invocation["piece"]>[1]) => invocation.piece(place, piece)
    : undefined;
  const response = await orAborted(signal, model.respond(request, { signal, onPiece }));
  // Whoever reads has seen the whole answer before callbacks look at it.
  await invocation.taken();
  const output = withCallIds((response as Partial<ModelResponse> | undefined)?.output, callIdsIn(invocation));
  const fault = faultInItems(output);
  if (fault) throw new HoldfastError("model_failed", `the answer of ${model.name} cannot be read: ${fault}`);
  return { ...response, output: output as Item[] };
}

/** The ids of the calls of this invocation. */
function callIdsIn({ entered: { steps } }: Invocation): Set<string> {
  const answers = steps.filter((event) => event.type === "model.answered");
  return new Set(answers.flatMap(({ items }) => items.filter(isFunctionCall).map(({ call_id }) => call_id)));
}

/** Items whose calls have ids of their own. There are servers that give none, or the same again: results would be mixed up. */
function withCallIds(output: unknown, used: Set<string>): unknown {
  if (!Array.isArray(output)) return output;
  return output.map((item: unknown) => {
    if ((item as Item | null)?.type !== "function_call") return item;
    const { call_id: given } = item as { call_id?: unknown };
    const wanted = typeof given === "string" && given !== "" ? given : "call";
    let call_id = wanted;
    for (let more = 2; used.has(call_id); more++) call_id = `${wanted}_${more}`;
    used.add(call_id);
    return call_id === given ? item : { ...(item as object), call_id };
  });
}

function modelError(thrown: unknown): HoldfastError {
  if (isHoldfastError(thrown)) return thrown;
  return new HoldfastError("model_failed", `the model failed: ${messageOf(thrown)}`, { cause: thrown });
}
