// Splits a long text into pieces that are rendered one after another.

/** Estimated characters per line, because a line may have any length. */
const charactersOfLine = 100;
const chunkLength = 16_384;

/**
 * Returns the first lines of a text. If its lines are long, returns as many characters as lines of the estimated length
 * have. Returns the whole text if little is left.
 */
export function firstLines(text: string, lines: number): string {
  let end = 0;
  const most = lines * charactersOfLine;
  for (let line = 0; line < lines && end < text.length && end <= most; line++) {
    const next = text.indexOf("\n", end);
    end = next < 0 ? text.length : next + 1;
  }
  end = avoidSplitPair(text, Math.min(end, most));
  // A button would take as much space as the last line.
  return text.length - end < charactersOfLine && !text.slice(end).trimEnd().includes("\n") ? text : text.slice(0, end);
}

/** Splits a text at line breaks where possible. The pieces join to the same text. */
export function splitText(text: string): string[] {
  const chunks: string[] = [];
  for (let start = 0; start < text.length;) {
    const far = start + chunkLength;
    const line = far >= text.length ? text.length : text.lastIndexOf("\n", far - 1) + 1;
    const end = line > start ? line : avoidSplitPair(text, far);
    chunks.push(text.slice(start, end));
    start = end;
  }
  return chunks;
}

/** Moves a cut so that it does not split a surrogate pair. */
function avoidSplitPair(text: string, at: number): number {
  const before = text.charCodeAt(at - 1);
  return at < text.length && before >= 0xd800 && before < 0xdc00 ? at - 1 : at;
}
