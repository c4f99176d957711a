// A stream of bytes as lines of text.

export async function* linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  for await (const lines of linesTogether(body)) yield* lines;
}

/** Those that came together at once, so that a reader can take them at once. */
export async function* linesTogether(body: ReadableStream<Uint8Array>): AsyncGenerator<string[], void, undefined> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      // Only what is new is searched: a line may be many megabytes.
      const [first = "", ...more] = decoder.decode(value, { stream: !done }).split("\n");
      const lines = [rest + first, ...more];
      rest = done ? "" : (lines.pop() ?? "");
      // After the end of the last line there is no other.
      if (done && lines.at(-1) === "") lines.pop();
      if (lines.length > 0) yield lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
      if (done) return;
    }
  } finally {
    // Who stops reading wants no more of it.
    void reader.cancel().catch(() => undefined);
  }
}
