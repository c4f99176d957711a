// How far a conversation is: the number of turns its assistant has had.
import type { Item } from "./model.ts";

/**
 * The number of an assistant's turns in a conversation. A turn is a longest run of items with nothing of the other side
 * between them: messages of the assistant, calls, reasoning and kinds that are not known here. The other side is any
 * other message, and what tools gave back: items whose type ends in `_output`.
 *
 * So an answer of several items is one turn, and so is an answer that was continued with nothing said in between. An
 * answer without items leaves no trace, and is no turn.
 */
export function assistantTurns(input: readonly Item[]): number {
  return input.filter((item, at) => isAssistants(item) && !isAssistants(input[at - 1])).length;
}

function isAssistants(item: Item | undefined): boolean {
  if (!item) return false;
  return item.type === "message" ? item["role"] === "assistant" : !item.type.endsWith("_output");
}
