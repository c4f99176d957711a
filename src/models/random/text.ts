// A random text that a JSON Schema asks for: by format, by pattern, or words of a length.
import type { Json } from "../../core/json.ts";
import { numberOf, type JsonSchema } from "../../core/json-schema.ts";
import { between, chance, pick, type Random } from "./draw.ts";
import { textMaker } from "./pattern.ts";

/** `pattern` may be a list. The caller looks whether the text fits, and tries again: `attempt` counts. */
export function randomText(schema: JsonSchema, random: Random, attempt: number): string {
  const format = formats[String(schema["format"])];
  const patterns = [schema["pattern"] ?? []].flat() as Json[];
  // Every other attempt by pattern: it may ask for more than the format, such as another version of a uuid.
  if (format && (patterns.length === 0 || attempt % 2 === 0)) return format(random);
  const least = numberOf(schema["minLength"]) ?? 0;
  const most = numberOf(schema["maxLength"]) ?? Infinity;
  const matching = byPatterns(patterns, random, Math.max(4, Math.min(2 * least, most, 10_000)));
  if (matching !== undefined) return matching;
  // No more than 10,000: what asks for a longer one will have to refuse this.
  return words(random, Math.min(least, 10_000), Math.min(most, Math.max(24, least + 8), 10_000));
}

// Of several, one after the other: that fits each, if the one that is bound to the start stands first, and to the end last.
function byPatterns(patterns: Json[], random: Random, longest: number): string | undefined {
  const order = (pattern: string): number => (pattern.startsWith("^") ? 0 : pattern.endsWith("$") ? 2 : 1);
  const ordered = patterns.filter((pattern) => typeof pattern === "string").sort((a, b) => order(a) - order(b));
  const texts = ordered.map((pattern) => textMaker(pattern)?.(random, longest));
  return texts.length === 0 || texts.includes(undefined) ? undefined : texts.join("");
}

const vocabulary = [
  "a",
  "to",
  "red",
  "blue",
  "seven",
  "apple",
  "house",
  "river",
  "naïve",
  "日本",
  "x-1",
  "42",
] as const;

function words(random: Random, least: number, most: number): string {
  const length = between(random, least, Math.max(least, most));
  let text = "";
  while (text.length < length) text += (text === "" ? "" : " ") + pick(random, vocabulary);
  // No space at an end: those who trim would find the text too short.
  const cut = text.slice(0, length);
  return cut.endsWith(" ") ? `${cut.slice(0, -1)}.` : cut;
}

const characters = (random: Random, alphabet: string, length: number): string =>
  Array.from({ length }, () => alphabet[between(random, 0, alphabet.length - 1)]).join("");
const hex = (random: Random, length: number): string => characters(random, "0123456789abcdef", length);
const name = (random: Random): string => characters(random, "abcdefghijklmnopqrstuvwxyz", between(random, 1, 8));
const two = (random: Random, least: number, most: number): string =>
  String(between(random, least, most)).padStart(2, "0");
const date = (random: Random): string => `${between(random, 1970, 2038)}-${two(random, 1, 12)}-${two(random, 1, 28)}`;
const time = (random: Random): string => `${two(random, 0, 23)}:${two(random, 0, 59)}:${two(random, 0, 59)}`;
const hostname = (random: Random): string => `${name(random)}.example.com`;
const uri = (random: Random): string =>
  `https://${hostname(random)}/${name(random)}${chance(random, 0.3) ? "?q=1" : ""}`;
const ipv4 = (random: Random): string => Array.from({ length: 4 }, () => between(random, 0, 255)).join(".");
const ipv6 = (random: Random): string => Array.from({ length: 8 }, () => hex(random, 4)).join(":");

const formats: { [format: string]: ((random: Random) => string) | undefined } = {
  date,
  time: (random) => `${time(random)}Z`,
  "date-time": (random) => `${date(random)}T${time(random)}Z`,
  duration: (random) => `P${between(random, 1, 30)}DT${between(random, 0, 23)}H`,
  email: (random) => `${name(random)}@${hostname(random)}`,
  uuid: (random) => {
    const variant = characters(random, "89ab", 1);
    return `${hex(random, 8)}-${hex(random, 4)}-4${hex(random, 3)}-${variant}${hex(random, 3)}-${hex(random, 12)}`;
  },
  uri,
  url: uri,
  "uri-reference": uri,
  hostname,
  ipv4,
  ipv6,
  emoji: (random) => pick(random, ["😀", "🚀", "🌲"]),
  regex: () => "^a+$",
  "json-pointer": (random) => `/${name(random)}`,
  jwt: (random) => {
    const part = (value: Json): string => Buffer.from(JSON.stringify(value)).toString("base64url");
    return `${part({ alg: "HS256", typ: "JWT" })}.${part({ sub: name(random) })}.${hex(random, 16)}`;
  },
  cidrv6: (random) => `${ipv6(random)}/${between(random, 0, 128)}`,
};
