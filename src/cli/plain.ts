// plain(): text from others on a terminal, where it is text and nothing else.

/** Writes characters that move the cursor, change colours or turn the direction of text as their code. */
export function plain(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(
    // eslint-disable-next-line no-control-regex -- these are what is looked for
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
