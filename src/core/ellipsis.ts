// Shortens texts and values for messages.

/** Returns the first `length` characters of a text, with "…" instead of the rest. */
export const ellipsis = (text: string, length: number): string =>
  text.length > length ? `${text.slice(0, length)}…` : text;

/** Returns a value as JSON, shortened; "nothing" if it is undefined. */
export const showJson = (value: unknown, length: number): string =>
  value === undefined ? "nothing" : ellipsis(JSON.stringify(value), length);
