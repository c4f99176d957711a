// Prints lines, and makes text from models and files harmless on a terminal.

/** Replaces characters that move the cursor, change colours or reverse the direction of text with their codes. */
export function plain(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(
    // eslint-disable-next-line no-control-regex -- the search is for control characters
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Like `plain`, but also keeps the text on one line, so that it cannot forge a second line. */
export const plainLine = (text: string): string => plain(text).replaceAll("\n", "\\u000a");

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

export const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;
