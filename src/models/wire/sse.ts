// Reads server-sent events from chunks that may be cut anywhere.

/**
 * Yields each event's data without its type, because all three APIs repeat the type in the data. The blank line after
 * the last event may be missing, because some servers omit it.
 */
export async function* parseEvents(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const lines = lineReader();
  let data: string[] = [];
  function* take(text: string): Generator<string> {
    for (const line of lines.take(text)) {
      if (line === "" && data.length > 0) {
        yield data.join("\n");
        data = [];
      } else if (line.startsWith("data:")) {
        data.push(line.slice(line[5] === " " ? 6 : 5));
      } else if (line === "data") data.push("");
    }
  }
  for await (const chunk of chunks) yield* take(decoder.decode(chunk, { stream: true }));
  yield* take(`${decoder.decode()}\n\n`);
}

/** Splits text into lines that end with CR, LF or both. */
function lineReader(): { take(text: string): Generator<string> } {
  // The parts of an unfinished line, which may arrive in thousands of pieces.
  let begun: string[] = [];
  let afterReturn = false;
  return {
    *take(text) {
      let from = 0;
      for (const { 0: end, index } of text.matchAll(/\r\n|\n|\r/g)) {
        // The "\n" of a CRLF that was split between two chunks.
        const isSecondHalf = afterReturn && index === 0 && end === "\n";
        if (!isSecondHalf) {
          const line = begun.join("") + text.slice(from, index);
          begun = [];
          yield line;
        }
        from = index + end.length;
      }
      if (text !== "") afterReturn = text.endsWith("\r");
      if (from < text.length) begun.push(text.slice(from));
    },
  };
}
