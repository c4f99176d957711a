// Formats numbers and times compactly.

/** A negative number has a minus sign, which is as wide as a plus sign. */
export function number(value: number, digits = 3): string {
  const text = Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(digits)));
  return text.replace(/^-/, "−");
}

export const percent = (value: number): string => `${number(value, 4)}%`;

/** The local date and time of a number of seconds since 1970. */
export const date = (at: number): string => {
  const local = new Date(at * 1000);
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = [local.getFullYear(), two(local.getMonth() + 1), two(local.getDate())].join("-");
  return `${day} ${two(local.getHours())}:${two(local.getMinutes())}`;
};

export const orDash = (value: number | null | undefined, shown: (value: number) => string = number): string =>
  value === null || value === undefined ? "–" : shown(value);

export function seconds(value: number): string {
  if (value < 0.001) return "<1 ms";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 100) return `${number(value)} s`;
  return value < 6000 ? `${Math.round(value / 60)} min` : `${number(value / 3600)} h`;
}

export function bytes(value: number): string {
  if (value < 1000) return `${value} B`;
  return value < 1e6 ? `${number(value / 1e3)} KB` : `${number(value / 1e6)} MB`;
}

export const count = (value: number, one: string, many = `${one}s`): string =>
  `${number(value)} ${value === 1 ? one : many}`;

export const clock = (at: number): string => new Date(at).toLocaleTimeString("en-GB");

export const short = (text: string, length = 120): string =>
  showInvisible(text.length > length ? `${text.slice(0, length)}…` : text);

/**
 * Makes invisible characters visible: control characters and characters that change text direction.
 * Text written by a model must not look like other text. Tabs and line breaks stay.
 */
export const showInvisible = (text: string): string =>
  text.replaceAll(invisible, (one) => `⟨U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

// oxlint-disable-next-line no-control-regex -- control characters are intended
const invisible = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;
