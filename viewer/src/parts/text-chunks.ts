// Cuts long texts into what is shown of them at a time.

/** Lines may be of any length, too. */
const charactersOfLine = 100;
const chunkLength = 16_384;

/** The first lines of a text, or as many characters as such lines have; all of it if little more is left. */
export function beginningOf(text: string, lines: number): string {
  let end = 0;
  const most = lines * charactersOfLine;
  for (let line = 0; line < lines && end < text.length && end <= most; line++) {
    const next = text.indexOf("\n", end);
    end = next < 0 ? text.length : next + 1;
  }
  end = whole(text, Math.min(end, most));
  // A button in place of one line is no gain.
  return text.length - end < charactersOfLine && !text.slice(end).trimEnd().includes("\n") ? text : text.slice(0, end);
}

/** Put together they are the text. They end with a line where one ends. */
export function chunksOf(text: string): string[] {
  const chunks: string[] = [];
  for (let start = 0; start < text.length;) {
    const far = start + chunkLength;
    const line = far >= text.length ? text.length : text.lastIndexOf("\n", far - 1) + 1;
    const end = line > start ? line : whole(text, far);
    chunks.push(text.slice(start, end));
    start = end;
  }
  return chunks;
}

/** Never between the two halves of a character. */
function whole(text: string, at: number): number {
  const before = text.charCodeAt(at - 1);
  return at < text.length && before >= 0xd800 && before < 0xdc00 ? at - 1 : at;
}
