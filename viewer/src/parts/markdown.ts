// parseMarkdown(): parses the common part of Markdown into a tree. Raw HTML stays text, and images become text.

export type Inline =
  | string
  | { type: "code"; text: string }
  | { type: "strong" | "em" | "del"; children: Inline[] }
  | { type: "link"; href: string; children: Inline[] };

export type Block =
  | { type: "paragraph"; children: Inline[] }
  | { type: "heading"; level: number; children: Inline[] }
  | { type: "code"; text: string }
  | { type: "quote"; children: Block[] }
  | { type: "list"; start: number | undefined; items: Block[][] }
  | { type: "table"; head: Inline[][]; rows: Inline[][][] }
  | { type: "rule" };

/** Deeper nesting is shown as text, because a model's text may be malicious. */
const deepest = 8;
/** Longer paragraphs are shown as text. */
const longestInline = 20_000;
const longestLink = 2_000;

export function parseMarkdown(text: string): Block[] {
  return parseBlocks(text.replaceAll("\r\n", "\n").split("\n"), 0);
}

const fence = /^ {0,3}(`{3,}|~{3,})/;
const heading = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const rule = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const item = /^( *)([-*+]|\d{1,9}[.)])(?:[ \t]+|$)/;
const divider = /^ *\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$/;

function parseBlocks(lines: string[], depth: number): Block[] {
  const blocks: Block[] = [];
  let paragraph: string[] = [];
  const endParagraph = (): void => {
    if (paragraph.length > 0) blocks.push({ type: "paragraph", children: parseInline(paragraph.join("\n").trim()) });
    paragraph = [];
  };
  for (let at = 0; at < lines.length;) {
    const found = depth < deepest ? specialBlock(lines, at, depth, paragraph.length > 0) : undefined;
    if (found) {
      endParagraph();
      blocks.push(found.block);
      at = found.next;
      continue;
    }
    const line = lines[at++] as string;
    if (line.trim() === "") endParagraph();
    else paragraph.push(line);
  }
  endParagraph();
  return blocks;
}

interface Found {
  block: Block;
  /** The index of the line after the block. */
  next: number;
}

function specialBlock(lines: string[], at: number, depth: number, isInParagraph: boolean): Found | undefined {
  const line = lines[at] as string;
  const [, marks] = fence.exec(line) ?? [];
  if (marks !== undefined) return codeBlock(lines, at, marks);
  const [, signs, title = ""] = heading.exec(line) ?? [];
  if (signs !== undefined) {
    return { block: { type: "heading", level: signs.length, children: parseInline(title) }, next: at + 1 };
  }
  if (rule.test(line)) return { block: { type: "rule" }, next: at + 1 };
  if (/^ {0,3}>/.test(line)) {
    const next = endOf(lines, at, (other) => /^ {0,3}>/.test(other));
    const inside = lines.slice(at, next).map((quoted) => quoted.replace(/^ {0,3}> ?/, ""));
    return { block: { type: "quote", children: parseBlocks(inside, depth + 1) }, next };
  }
  if (line.includes("|") && isDivider(lines[at + 1] ?? "")) return table(lines, at);
  // Inside a paragraph, only a list that starts with 1 is a list: "in\n1986. It" is not.
  const [, , sign] = item.exec(line) ?? [];
  if (sign === undefined || (isInParagraph && /^\d/.test(sign) && Number.parseInt(sign, 10) !== 1)) return undefined;
  return list(lines, at, depth);
}

/** A long line would take the expression too much time. */
const isDivider = (line: string): boolean => line.length < 1_000 && divider.test(line);

/** Finds the first line from `at` on for which `fits` is false. */
function endOf(lines: string[], at: number, fits: (line: string) => boolean): number {
  let next = at;
  while (next < lines.length && fits(lines[next] as string)) next++;
  return next;
}

function codeBlock(lines: string[], at: number, marks: string): Found {
  const isEnd = (line: string): boolean => {
    const [, found = ""] = /^ {0,3}(`+|~+)[ \t]*$/.exec(line) ?? [];
    return found.startsWith(marks);
  };
  const end = endOf(lines, at + 1, (line) => !isEnd(line));
  return { block: { type: "code", text: lines.slice(at + 1, end).join("\n") }, next: end + 1 };
}

function table(lines: string[], at: number): Found {
  const next = endOf(lines, at + 2, (line) => line.includes("|"));
  const cells = (line: string): Inline[][] =>
    line
      .trim()
      .replace(/^\|/, "")
      .replace(/\|$/, "")
      .split("|")
      .map((cell) => parseInline(cell.trim()));
  const rows = lines.slice(at + 2, next).map(cells);
  return { block: { type: "table", head: cells(lines[at] as string), rows }, next };
}

function list(lines: string[], at: number, depth: number): Found {
  const [, indent = "", sign = ""] = item.exec(lines[at] as string) ?? [];
  const isOrdered = /^\d/.test(sign);
  const items: string[][] = [];
  let next = at;
  for (; next < lines.length; next++) {
    const line = lines[next] as string;
    const found = item.exec(line);
    const inside = items.at(-1);
    if (found && found[1]?.length === indent.length && /^\d/.test(found[2] as string) === isOrdered) {
      items.push([line.slice(found[0].length)]);
    } else if (!inside) break;
    else if (line.trim() === "") {
      const after = lines[next + 1] ?? "";
      const isMore = after.startsWith(`${indent} `) || item.test(after);
      if (!isMore) break;
      inside.push("");
    } else if (/^\s/.test(line.slice(indent.length)) || !isBlockStart(line)) {
      inside.push(line.slice(Math.min(indentOf(line), indent.length + sign.length + 1)));
    } else break;
  }
  const start = isOrdered ? Number.parseInt(sign, 10) : undefined;
  return { block: { type: "list", start, items: items.map((lines) => parseBlocks(lines, depth + 1)) }, next };
}

const indentOf = (line: string): number => line.length - line.trimStart().length;
const isBlockStart = (line: string): boolean =>
  [fence, heading, rule, item, /^ {0,3}>/].some((pattern) => pattern.test(line));

/** Parses the marks inside a paragraph. Every text is visited a bounded number of times. */
export function parseInline(text: string, depth = 0): Inline[] {
  if (text.length > longestInline || depth > deepest) return [text];
  const found: Inline[] = [];
  // Marks without an end: a later mark of the same kind has no end either.
  const unended = new Set<string>();
  let plain = "";
  const add = (inline: Inline): void => {
    if (plain !== "") found.push(plain);
    plain = "";
    found.push(inline);
  };
  for (let at = 0; at < text.length;) {
    const mark = markAt(text, at);
    if (mark === undefined) {
      plain += text[at++];
      continue;
    }
    const made = unended.has(mark) ? undefined : inlineAt(text, at, mark, depth);
    if (typeof made === "object") {
      add(made.inline);
      at = made.next;
    } else {
      if (made === "unended") unended.add(mark);
      plain += mark.startsWith("\\") ? mark.slice(1) : mark;
      at += mark.length;
    }
  }
  if (plain !== "") found.push(plain);
  return found;
}

const marks = /`+|\*\*|__|~~|\*|_|!?\[|https?:\/\/[^\s<>"'`]+|\\[!-/:-@[-`{-~]/y;

function markAt(text: string, at: number): string | undefined {
  marks.lastIndex = at;
  return marks.exec(text)?.[0];
}

interface FoundInline {
  inline: Inline;
  next: number;
}

/** Returns undefined if the mark is plain text, or "unended" if it is plain text because it has no end mark. */
function inlineAt(text: string, at: number, mark: string, depth: number): FoundInline | "unended" | undefined {
  if (mark.startsWith("\\")) return undefined;
  if (mark.startsWith("http")) {
    if (mark.length > longestLink) return undefined;
    const href = mark.replace(/[.,;:!?)\]*_]+$/, "");
    return { inline: { type: "link", href, children: [href] }, next: at + href.length };
  }
  if (mark.endsWith("[")) return linkAt(text, at, mark, depth);
  const inside = at + mark.length;
  if (mark.startsWith("`")) {
    const end = findRun(text, mark, inside);
    if (end < 0) return "unended";
    return { inline: { type: "code", text: text.slice(inside, end).trim() }, next: end + mark.length };
  }
  if (/\s/.test(text[inside] ?? " ") || (mark[0] === "_" && /\w/.test(text[at - 1] ?? " "))) return undefined;
  const end = findEnd(text, mark, inside);
  if (end < 0) return "unended";
  const type = mark === "~~" ? "del" : mark.length === 2 ? "strong" : "em";
  return { inline: { type, children: parseInline(text.slice(inside, end), depth + 1) }, next: end + mark.length };
}

/** Finds a run of exactly as many backticks. */
function findRun(text: string, mark: string, from: number): number {
  for (let end = text.indexOf(mark, from); end >= 0; end = text.indexOf(mark, end)) {
    let after = end;
    while (text[after] === "`") after++;
    if (after - end === mark.length) return end;
    end = after;
  }
  return -1;
}

/** Finds the end of an emphasis: the same mark after a character that is not a space. */
function findEnd(text: string, mark: string, from: number): number {
  for (let end = text.indexOf(mark, from + 1); end >= 0; end = text.indexOf(mark, end + mark.length)) {
    const isInWord = mark[0] === "_" && /\w/.test(text[end + mark.length] ?? " ");
    // A single mark does not end at a double one.
    const isDouble = mark.length === 1 && (text[end + 1] === mark || text[end - 1] === mark);
    if (!/\s/.test(text[end - 1] as string) && !isInWord && !isDouble) return end;
  }
  return -1;
}

const target = /\]\(\s*<?(https?:\/\/[^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)?)>?(?:\s+"[^"]*")?\s*\)/y;

/** Parses a link to a web page. Other addresses stay text; an image becomes its description. */
function linkAt(text: string, at: number, mark: string, depth: number): FoundInline | "unended" | undefined {
  const from = at + mark.length;
  const close = text.indexOf("]", from);
  if (close < 0) return "unended";
  if (close - from > longestLink) return undefined;
  const label = text.slice(from, close);
  if (mark === "![") {
    const end = text[close + 1] === "(" ? text.indexOf(")", close) : -1;
    return end < 0 || end - close > longestLink ? undefined : { inline: `[image: ${label}]`, next: end + 1 };
  }
  target.lastIndex = close;
  const [whole, href] = target.exec(text) ?? [];
  if (whole === undefined || href === undefined) return undefined;
  return { inline: { type: "link", href, children: parseInline(label, depth + 1) }, next: close + whole.length };
}
