// Generates texts that match a regular expression: characters, classes, groups, alternatives and counts.
import { between, pick, type Random } from "./random.ts";

type Maker = (random: Random, longest: number) => string;

const unsupported = new Error("unsupported pattern");

/**
 * Parses a pattern once, to generate many texts. `longest` bounds repetitions that have no upper limit. Look-around is
 * skipped, so the caller must test each text. Returns undefined for back references, property classes and malformed
 * patterns.
 */
export function patternMaker(pattern: string): Maker | undefined {
  const reader = { pattern, at: 0 };
  try {
    const maker = alternatives(reader);
    return reader.at === pattern.length ? maker : undefined;
  } catch (thrown) {
    if (thrown === unsupported) return undefined;
    throw thrown;
  }
}

interface Reader {
  pattern: string;
  at: number;
}

/** Moves past the next characters if they match `syntax`, a sticky expression. Returns the match, or else null. */
function take(reader: Reader, syntax: RegExp): RegExpExecArray | null {
  syntax.lastIndex = reader.at;
  const found = syntax.exec(reader.pattern);
  if (found) reader.at = syntax.lastIndex;
  return found;
}

function alternatives(reader: Reader): Maker {
  const makers: [Maker, ...Maker[]] = [sequence(reader)];
  while (take(reader, /\|/y)) makers.push(sequence(reader));
  return (random, longest) => pick(random, makers)(random, longest);
}

function sequence(reader: Reader): Maker {
  const makers: Maker[] = [];
  while (reader.at < reader.pattern.length && !/[|)]/.test(reader.pattern[reader.at] as string)) {
    makers.push(counted(reader, atom(reader)));
  }
  return (random, longest) => makers.map((make) => make(random, longest)).join("");
}

function counted(reader: Reader, make: Maker): Maker {
  const found = take(reader, /([*+?]|\{(\d+)(,?)(\d*)\})\??/y);
  if (!found) return make;
  const [, sign, count, comma, end] = found;
  const least = Number(count ?? sign === "+");
  const most = count === undefined ? (sign === "?" ? 1 : Infinity) : comma ? Number(end || Infinity) : least;
  return (random, longest) => {
    const length = between(random, Math.min(least, 10_000), Math.min(most, least + longest, 10_000));
    return Array.from({ length }, () => make(random, longest)).join("");
  };
}

function atom(reader: Reader): Maker {
  if (take(reader, /[\^$]/y)) return () => "";
  const opened = take(reader, /\((\?<?[=!])?(?:\?:|\?<\w+>)?/y);
  if (opened) {
    const inner = alternatives(reader);
    if (!take(reader, /\)/y)) throw unsupported;
    return opened[1] === undefined ? inner : () => "";
  }
  const characters = take(reader, /\[/y) ? characterClass(reader) : character(reader);
  return (random) => pick(random, characters) ?? "";
}

const range = (first: string, last: string): string[] => {
  const [start, end] = [first.charCodeAt(0), last.charCodeAt(0)];
  return Array.from({ length: Math.min(Math.max(end - start + 1, 0), 1000) }, (_, n) => String.fromCharCode(start + n));
};
const visible = range(" ", "~");
const word = visible.filter((char) => /\w/.test(char));
const named: { [letter: string]: string[] } = {
  d: range("0", "9"),
  D: visible.filter((char) => /\D/.test(char)),
  w: word,
  W: visible.filter((char) => /\W/.test(char)),
  s: [" "],
  S: range("!", "~"),
  n: ["\n"],
  t: ["\t"],
  r: ["\r"],
};

/** The characters that one element outside or inside a class stands for. */
function character(reader: Reader, isInClass = false): string[] {
  const found = take(reader, /\\(?:u([0-9a-f]{4})|x([0-9a-f]{2})|(.))|([^\\])/isy);
  if (!found) throw unsupported;
  const [, unicode, hex, escaped, plain] = found;
  if (unicode ?? hex) return [String.fromCharCode(parseInt(unicode ?? hex ?? "", 16))];
  if (escaped === undefined) return plain === "." && !isInClass ? visible : sure(plain, isInClass ? /^$/ : /[*+?{]/);
  // \b, \1, \p{…} and similar do not stand for a character.
  return named[escaped] ?? sure(escaped, /[A-Za-z0-9]/);
}

function sure(character: string | undefined, syntax: RegExp): string[] {
  if (character === undefined || syntax.test(character)) throw unsupported;
  return [character];
}

function characterClass(reader: Reader): string[] {
  const isNegated = take(reader, /\^/y);
  const found: string[] = [];
  while (!take(reader, /\]/y)) {
    const [first = "", ...more] = character(reader, true);
    const isRange = more.length === 0 && take(reader, /-(?!\])/y);
    found.push(...(isRange ? range(first, character(reader, true)[0] ?? "") : [first, ...more]));
  }
  const characters = isNegated ? visible.filter((one) => !found.includes(one)) : found;
  if (characters.length === 0) throw unsupported;
  return characters;
}
