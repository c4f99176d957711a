// plain(): text from others on a terminal, where it is text and nothing else.

/** Characters that move the cursor, change colours or talk to the terminal are shown as dots. Tabs and ends of lines stay. */
export function plain(text: string): string {
  // eslint-disable-next-line no-control-regex -- these are what is looked for
  return text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "·");
}
