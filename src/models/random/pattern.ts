// Texts that match a regular expression, of the simple kind: characters, classes, groups, alternatives and counts.
import { between, pick, type Random } from "./draw.ts";

/** Makes a text; `longest` bounds how often something is repeated that may be repeated without end. */
type Part = (random: Random, longest: number) => string;

/** undefined if the pattern has something that cannot be turned round, such as a look-ahead or a back reference. */
export function textMaker(pattern: string): Part | undefined {
  const reader: Reader = { text: pattern, at: 0 };
  try {
    const made = alternatives(reader);
    return reader.at === pattern.length ? made : undefined;
  } catch (cause) {
    if (cause === notSimple) return undefined;
    throw cause;
  }
}

interface Reader {
  text: string;
  at: number;
}

const notSimple = new Error("this pattern is not simple");

const next = (reader: Reader): string | undefined => reader.text[reader.at];

function skip(reader: Reader, expected: string): boolean {
  if (!reader.text.startsWith(expected, reader.at)) return false;
  reader.at += expected.length;
  return true;
}

function alternatives(reader: Reader): Part {
  const parts = [sequence(reader)];
  while (skip(reader, "|")) parts.push(sequence(reader));
  return (random, longest) => pick(random, parts)?.(random, longest) ?? "";
}

function sequence(reader: Reader): Part {
  const parts: Part[] = [];
  for (let char = next(reader); char !== undefined && char !== "|" && char !== ")"; char = next(reader)) {
    parts.push(counted(reader, one(reader)));
  }
  return (random, longest) => parts.map((part) => part(random, longest)).join("");
}

function one(reader: Reader): Part {
  const char = next(reader) ?? "";
  reader.at++;
  switch (char) {
    case "^":
    case "$":
      return () => "";
    case ".":
      return anyOf(visible);
    case "[":
      return anyOf(characterClass(reader));
    case "(":
      return group(reader);
    case "\\":
      return anyOf(escaped(reader));
    case "*":
    case "+":
    case "?":
    case "{":
      throw notSimple;
    default:
      return () => char;
  }
}

function group(reader: Reader): Part {
  if (!skip(reader, "?:") && next(reader) === "?") {
    const named = /^\?<[A-Za-z_]\w*>/.exec(reader.text.slice(reader.at));
    if (!named) throw notSimple;
    reader.at += named[0].length;
  }
  const inside = alternatives(reader);
  if (!skip(reader, ")")) throw notSimple;
  return inside;
}

function counted(reader: Reader, part: Part): Part {
  const found = /^(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})\??/.exec(reader.text.slice(reader.at));
  if (!found) return part;
  reader.at += found[0].length;
  const [, sign, count, comma, end] = found;
  const least = sign ? Number(sign === "+") : Number(count);
  const most = sign ? (sign === "?" ? 1 : Infinity) : comma ? (end ? Number(end) : Infinity) : least;
  return (random, longest) => {
    const times = between(random, least, Math.min(most, least + longest));
    return Array.from({ length: times }, () => part(random, longest)).join("");
  };
}

const range = (first: string, last: string): string[] => {
  const [start, end] = [first.charCodeAt(0), last.charCodeAt(0)];
  if (end < start) throw notSimple;
  return Array.from({ length: Math.min(end - start + 1, 1000) }, (_, n) => String.fromCharCode(start + n));
};

const visible = range(" ", "~");
const digits = range("0", "9");
const wordCharacters = [...range("a", "z"), ...range("A", "Z"), ...digits, "_"];
const without = (these: string[]): string[] => visible.filter((char) => !these.includes(char));
const classes: { [letter: string]: string[] } = {
  d: digits,
  D: without(digits),
  w: wordCharacters,
  W: without(wordCharacters),
  s: [" "],
  S: without([" "]),
  n: ["\n"],
  t: ["\t"],
  r: ["\r"],
};

function anyOf(characters: string[]): Part {
  if (characters.length === 0) throw notSimple;
  return (random) => pick(random, characters) ?? "";
}

function escaped(reader: Reader): string[] {
  const char = next(reader);
  const code = /^(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))/.exec(reader.text.slice(reader.at));
  reader.at += code ? code[0].length : 1;
  if (code) return [String.fromCharCode(parseInt(code[1] ?? code[2] ?? "", 16))];
  if (char === undefined) throw notSimple;
  const known = classes[char];
  if (known) return known;
  // \b, \1, \p{…} and their like stand for something else than the character.
  if (/[A-Za-z0-9]/.test(char)) throw notSimple;
  return [char];
}

function characterClass(reader: Reader): string[] {
  const negated = skip(reader, "^");
  const characters: string[] = [];
  while (!skip(reader, "]")) {
    const [first, ...more] = member(reader);
    const isRange = more.length === 0 && next(reader) === "-" && reader.text[reader.at + 1] !== "]";
    if (first === undefined) throw notSimple;
    if (!isRange) {
      characters.push(first, ...more);
      continue;
    }
    reader.at++;
    const [last = ""] = member(reader);
    characters.push(...range(first, last));
  }
  return negated ? without(characters) : characters;
}

function member(reader: Reader): string[] {
  const char = next(reader);
  if (char === undefined) throw notSimple;
  reader.at++;
  return char === "\\" ? escaped(reader) : [char];
}
