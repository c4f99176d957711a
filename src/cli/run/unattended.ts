// Asks queries from a file or a pipe, one by one, up to the first that fails.
import { createInterface } from "node:readline";
import { cannotLoad, messageOf } from "../../core/errors.ts";
import { onAbort } from "../../io/abort.ts";
import type { Conversation } from "./conversation.ts";

/** Returns whether all queries were answered. */
export async function askAll(
  queries: Iterable<string> | AsyncIterable<string>,
  { say }: Conversation,
  stopped: AbortSignal,
): Promise<boolean> {
  for await (const query of queries) {
    if (stopped.aborted || (await say(query, stopped)) !== "done") return false;
  }
  return !stopped.aborted;
}

/** Yields the lines of a pipe or a file that are not blank, up to the end or `exit`. */
export async function* readQueries(input: NodeJS.ReadableStream, stopped: AbortSignal): AsyncGenerator<string> {
  const reader = createInterface({ input, terminal: false, crlfDelay: Infinity });
  const stopListening = onAbort(stopped, () => reader.close());
  let failure: unknown;
  input.once("error", (thrown: unknown) => {
    failure = thrown;
    reader.close();
  });
  try {
    for await (const line of reader) {
      const query = line.trim();
      if (query === "exit") return;
      if (query !== "") yield query;
    }
    if (failure !== undefined) throw cannotLoad(`the input cannot be read: ${messageOf(failure)}`, failure);
  } finally {
    reader.close();
    stopListening();
  }
}
