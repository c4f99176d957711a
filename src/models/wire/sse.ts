// Reads server-sent events from bytes that may be cut anywhere.

/**
 * The data of each event. The kind of an event is not given: all three APIs repeat it in the data.
 *
 * An event that the end of the stream cuts off is given too: servers leave out the last blank line.
 */
export async function* eventsOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
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

/** Lines that end with CR, LF or both. */
function lineReader(): { take(text: string): Generator<string> } {
  // In parts, as one line may come in thousands of them.
  let begun: string[] = [];
  let afterReturn = false;
  return {
    *take(text) {
      let from = 0;
      for (const { 0: end, index } of text.matchAll(/\r\n|\n|\r/g)) {
        // The second half of a CRLF that was cut in two.
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
