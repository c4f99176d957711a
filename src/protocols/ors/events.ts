// Writes ORS's server-sent events. Long values are cut into pieces that ORS's clients can read.

/** Characters of data in one event. Clients' readers fail at lines of 64 KiB. */
const longest = 4_096;

export const event = (name: string, data: string): string => `event: ${name}\ndata: ${data}\n\n`;

/** Returns a value as `chunk` events and one `end` event. Their joined data is the value's JSON. */
export function valueEvents(value: unknown): string {
  const text = JSON.stringify(value);
  if (text.length <= longest) return event("end", text);
  const pieces = cut(text);
  return pieces.map((piece, at) => event(at === pieces.length - 1 ? "end" : "chunk", piece)).join("");
}

/**
 * Characters that Python's str.lstrip removes. `\s` lacks U+0085. Python also removes U+001C to U+001F, but JSON always
 * has escapes for them.
 */
const leadingBlank = /^[\s\u0085]/;

/**
 * Cuts JSON into pieces. Clients drop blanks at the start of a piece, so such blanks are written as escapes. This is
 * valid: JSON without indentation has blanks only inside strings. A piece does not begin with half a character.
 */
function cut(text: string): string[] {
  const pieces: string[] = [];
  for (let from = 0; from < text.length;) {
    let to = Math.min(text.length, from + longest);
    if (/[\uDC00-\uDFFF]/.test(text[to] ?? "")) to--;
    pieces.push(text.slice(from, to).replace(leadingBlank, escaped));
    from = to;
  }
  return pieces;
}

const escaped = (blank: string): string => `\\u${blank.charCodeAt(0).toString(16).padStart(4, "0")}`;
