// Splits a stream of bytes into lines of text.

export async function* readLines(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  for await (const lines of readLineBatches(body)) yield* lines;
}

/** Yields the lines of one chunk together, so that a reader can process them in one batch. */
export async function* readLineBatches(body: ReadableStream<Uint8Array>): AsyncGenerator<string[], void, undefined> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      // Only the new chunk is searched, because a line may span many megabytes.
      const [first = "", ...more] = decoder.decode(value, { stream: !done }).split("\n");
      const lines = [rest + first, ...more];
      rest = done ? "" : (lines.pop() ?? "");
      // No line follows the last line break.
      if (done && lines.at(-1) === "") lines.pop();
      if (lines.length > 0) yield lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
      if (done) return;
    }
  } finally {
    // The consumer stopped reading, so the rest of the stream is cancelled.
    void reader.cancel().catch(() => undefined);
  }
}
