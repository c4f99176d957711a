// Answers created in this process: their items, usage, pieces and cancellation.
import { HoldfastError } from "../core/errors.ts";
import { unlessAborted } from "../io/abort.ts";
import {
  isFunctionCall,
  isMessage,
  toText,
  type FunctionCall,
  type FunctionCallOutput,
  type Item,
  type Message,
  type ModelRequest,
  type ModelResponse,
  type Piece,
  type Reasoning,
  type RespondOptions,
} from "../core/model.ts";

/** Returns an assistant message. `id` must be unique in the conversation; the item's id ends with it. */
export function textItem(id: string, text: string): Message {
  return {
    type: "message",
    id: `msg_${id}`,
    role: "assistant",
    status: "completed",
    content: [{ type: "output_text", text, annotations: [] }],
  };
}

export function callItem(id: string, name: string, args: string): FunctionCall {
  return { type: "function_call", id: `fc_${id}`, call_id: `call_${id}`, name, arguments: args, status: "completed" };
}

/** Returns an answer with these items. Its usage is an estimate: one token per four characters of text. */
export function madeResponse(model: string, request: ModelRequest, output: Item[]): ModelResponse {
  const { instructions = "", input, tools = [] } = request;
  const input_tokens = tokens([instructions, ...input.map(textIn), ...tools.map((tool) => JSON.stringify(tool))]);
  const output_tokens = tokens(output.map(textIn));
  return {
    model,
    output,
    usage: { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens },
    status: "completed",
  };
}

const tokens = (texts: string[]): number => Math.ceil(texts.reduce((sum, { length }) => sum + length, 0) / 4);

// The casts are needed because Item is an open union, which TypeScript cannot narrow by its type.
function textIn(item: Item): string {
  switch (item.type) {
    case "message":
      return toText((item as Message).content);
    case "function_call": {
      const { name, arguments: args } = item as FunctionCall;
      return name + args;
    }
    case "function_call_output":
      return toText((item as FunctionCallOutput).output);
    case "reasoning":
      return toText((item as Reasoning).summary);
    default:
      return JSON.stringify(item);
  }
}

/** Passes on an answer's pieces: one per text, or as many as `split` returns. Stops when the signal aborts. */
export function givePieces(
  output: readonly Item[],
  { onPiece, signal }: RespondOptions,
  split: (text: string) => string[] = (text) => [text],
): void {
  if (!onPiece) return;
  for (const piece of output.flatMap(toPieces)) {
    for (const text of split(piece.text)) {
      if (text !== "") onPiece({ ...piece, text });
      refuseCancelled(signal);
    }
  }
}

/** Returns the piece for an item of a complete answer, if it is the assistant's item. Servers may omit the role. */
export function toPieces(item: Item): Piece[] {
  if (isMessage(item)) {
    const isAssistants = (item.role ?? "assistant") === "assistant";
    return isAssistants ? [{ type: "text", text: toText(item.content) }] : [];
  }
  const { type, summary } = item as Partial<Reasoning>;
  if (type === "reasoning" && Array.isArray(summary)) return [{ type: "reasoning", text: toText(summary) }];
  if (!isFunctionCall(item)) return [];
  return [{ type: "arguments", call_id: item.call_id, name: item.name, text: item.arguments }];
}

export function refuseCancelled(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw cancelled(signal);
}

/** Returns the result of the work, or rejects once the signal aborts. */
export const orCancelled = <T>(signal: AbortSignal | undefined, work: Promise<T>): Promise<T> =>
  unlessAborted(signal, work, () => cancelled(signal));

function cancelled(signal: AbortSignal | undefined): HoldfastError {
  return new HoldfastError("model_cancelled", "the request to the model was cancelled", { cause: signal?.reason });
}
