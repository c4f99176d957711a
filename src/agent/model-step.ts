// The step that asks the model: what it is shown, the callbacks around it, and the one event that it comes to.
import type { ModelAgent } from "../core/agent.ts";
import { HoldfastError, isHoldfastError, messageOf } from "../core/errors.ts";
import type { EventOf } from "../core/event.ts";
import { copyJson, type Json } from "../core/json.ts";
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
    let model: string | undefined;
    let response: ModelResponse;
    if (instead === undefined) {
      const asked = await answerOf(invocation, agent, place, request, signal).catch(async (thrown: unknown) => {
        const error = modelError(thrown);
        const value = signal.aborted ? undefined : await firstValue(callbacks.onModelError, context, error, request);
        if (value === undefined) throw error;
        return responseOf(value, "onModelError");
      });
      // A log has the answer as the callbacks left it: they are not to change it again.
      const isFinal = invocation.standIn !== undefined;
      const after = await firstValue(callbacks.afterModel, context, isFinal ? structuredClone(asked) : asked);
      response = after === undefined || isFinal ? asked : responseOf(after, "afterModel");
      model = agent.model.name;
    } else response = responseOf(instead, "beforeModel");
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
        ...(model !== undefined && { model }),
        ...(usage && { usage }),
        ...(Object.keys(rest).length > 0 && { response: rest as { [field: string]: Json } }),
      },
      working,
    );
  } finally {
    draft.close();
  }
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
