// Texts on their way to a store and back, where it takes UTF-8: half a surrogate pair would be lost in it, and some refuse NUL.

/** Each is sent as U+0001 and its code, as is U+0001 itself. JSON.stringify writes none of them, so that bodies stay as they are. */
// eslint-disable-next-line no-control-regex -- these are what is looked for
const unfit = /[\0\u0001\p{Surrogate}]/gu;
/** Finds whole pairs too, and takes half the time. */
// eslint-disable-next-line no-control-regex -- these are what is looked for
const perhapsUnfit = /[\0\u0001\ud800-\udfff]/;

export function toText(text: string): string {
  if (!perhapsUnfit.test(text)) return text;
  return text.replaceAll(unfit, (char) => `\u0001${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// eslint-disable-next-line no-control-regex -- these are what is looked for
const sent = /\u0001(.{4})/g;

export function fromText(text: string): string {
  if (!text.includes("\u0001")) return text;
  return text.replaceAll(sent, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}
