// Answers that are made in this process and not by a server: their items, usage and pieces, and the refusal to go on.
import { HoldfastError } from "../core/errors.ts";
import { unlessAborted } from "../io/abort.ts";
import {
  textOf,
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

/** `id` tells the items of a conversation apart: it is the end of the item's own id. */
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

/** An answer of these items. Its usage is a rough count: a token for every four characters of text. */
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

// Item is an open union: a type that is known says what else the item has, but TypeScript cannot tell.
function textIn(item: Item): string {
  switch (item.type) {
    case "message":
      return textOf((item as Message).content);
    case "function_call": {
      const { name, arguments: args } = item as FunctionCall;
      return name + args;
    }
    case "function_call_output":
      return textOf((item as FunctionCallOutput).output);
    case "reasoning":
      return textOf((item as Reasoning).summary);
    default:
      return JSON.stringify(item);
  }
}

/** Gives out an answer's pieces: one for each of its texts, or as many as `split` makes of it. Stops if that is cancelled. */
export function givePieces(
  output: readonly Item[],
  { onPiece, signal }: RespondOptions,
  split: (text: string) => string[] = (text) => [text],
): void {
  if (!onPiece) return;
  for (const piece of output.flatMap(piecesOf)) {
    for (const text of split(piece.text)) {
      if (text !== "") onPiece({ ...piece, text });
      refuseCancelled(signal);
    }
  }
}

function piecesOf(item: Item): Piece[] {
  switch (item.type) {
    case "message": {
      const { role, content } = item as Message;
      return role === "assistant" ? [{ type: "text", text: textOf(content) }] : [];
    }
    case "reasoning":
      return [{ type: "reasoning", text: textOf((item as Reasoning).summary) }];
    case "function_call": {
      const { call_id, name, arguments: text } = item as FunctionCall;
      return [{ type: "arguments", call_id, name, text }];
    }
    default:
      return [];
  }
}

export function refuseCancelled(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw cancelled(signal);
}

/** Returns the result of the work, or refuses once it is cancelled. */
export const orCancelled = <T>(signal: AbortSignal | undefined, work: Promise<T>): Promise<T> =>
  unlessAborted(signal, work, () => cancelled(signal));

function cancelled(signal: AbortSignal | undefined): HoldfastError {
  return new HoldfastError("model_cancelled", "the request to the model was cancelled", { cause: signal?.reason });
}
