// Checks the words of the repository: comments, titles of tests, messages, names and file names in plain English.
import ts from "typescript";
import { describe, expect, test } from "vitest";
import { filesIn, type SourceFile } from "./files.ts";

interface Rule {
  /** The text that is refused. */
  pattern: RegExp;
  instead: string;
  refused: string;
  accepted: string;
}

/** Rules for comments, titles and messages. */
const prose: Rule[] = [
  {
    pattern: /\bwhat (is|are|was|were) (?!the\b|a\b|an\b)/i,
    instead: "name the thing",
    refused: "What is unfolded stays so.",
    accepted: "Unfolded rows stay unfolded.",
  },
  {
    pattern: /\bthose (that|which|who)\b/i,
    instead: "repeat the noun",
    refused: "Those that are in only one of them are left out.",
    accepted: "Tasks present in only one file are ignored.",
  },
  {
    pattern: /\bwhoever\b|(^|[.:;,] )who\b|\b(to|for|by) who\b/i,
    instead: "name the actor",
    refused: "Who was too slow reads it again.",
    accepted: "A reader who is too slow reads it again.",
  },
  {
    pattern: /(?<!\bthere )\b(is|are|was|were) no (?!longer\b|more\b|less\b|\w+er\b)\w/i,
    instead: '"is not a", "are not", "there is no"',
    refused: "an id that is no version",
    accepted: "an id that is not a version, or is no longer valid; there is no other",
  },
  {
    pattern: /(?<!\bthere )\b(is|are) none\b/i,
    instead: '"is missing", "is invalid"',
    refused: "A line that is none is skipped.",
    accepted: "An invalid line is skipped, even if there are none.",
  },
  {
    pattern: /\b(go|goes|going|gone|went) on(?! (a|an|the|one|each|its)\b)\b/i,
    instead: '"continue", "resume"',
    refused: "A run goes on after a cut.",
    accepted: "A run continues; the address goes on one line.",
  },
  {
    pattern: /\bunder way\b/i,
    instead: '"running"',
    refused: "The turn is under way.",
    accepted: "The turn is running.",
  },
  {
    pattern: /\bluck\b/i,
    instead: '"randomness"',
    refused: "the same luck each time",
    accepted: "the same randomness each time",
  },
  {
    pattern: /\bfigures\b/i,
    instead: '"metrics", "numbers"',
    refused: "the figures of a run",
    accepted: "the metrics of a run",
  },
  {
    pattern: /\bthat (do|does|did|would) not fit\b|\bthat fits?\b(?! in)/i,
    instead: '"valid", "invalid"',
    refused: "arguments that fit",
    accepted: "valid arguments",
  },
  {
    pattern: /\bof which\b/i,
    instead: "a sentence of its own",
    refused: "A list of which the last is cut.",
    accepted: "The last entry of the list is cut.",
  },
];

/** Rules for the words of names and files: the parts of `ladderStep` and of `ladder-step.ts`. */
const names: Rule[] = [
  { pattern: /^luck$/, instead: "randomness", refused: "luckOf", accepted: "randomnessOf" },
  { pattern: /^ladders?$/, instead: "chunks", refused: "ladder", accepted: "chunks" },
  { pattern: /^hearts?$/, instead: "heartbeats", refused: "heartsOf", accepted: "heartbeats" },
  { pattern: /^patience$/, instead: "timeout, deadline", refused: "patience", accepted: "timeout" },
  { pattern: /^tapes?$/, instead: "recording", refused: "ReplayTape", accepted: "Recording" },
  { pattern: /^figures$/, instead: "metrics", refused: "runFigures", accepted: "figure" },
  { pattern: /^Hot$/, instead: "OpenLog", refused: "Hot", accepted: "isHot" },
];

/** Sentences end at a full stop, a colon, a semicolon or a line of their own. */
const mostWords = 25;

interface Words {
  comments: string[];
  titles: string[];
  /** Texts of the program with three words or more: errors, help, labels. */
  messages: string[];
  names: string[];
}

const titled = new Set(["test", "it", "describe", "onEveryStore", "onStore", "onStorage"]);

/** Whether a call declares a test or a group of tests, also as in test.each(rows). */
function isTitled(callee: ts.Expression): boolean {
  if (ts.isIdentifier(callee)) return titled.has(callee.text);
  return (ts.isCallExpression(callee) || ts.isPropertyAccessExpression(callee)) && isTitled(callee.expression);
}

function wordsIn({ path, text }: SourceFile): Words {
  const ranges = new Map<number, number>();
  const found: Words = { comments: [], titles: [], messages: [], names: [] };
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest);
  const add = (comments: ts.CommentRange[] | undefined): void =>
    comments?.forEach(({ pos, end }) => ranges.set(pos, end));
  const visit = (node: ts.Node): void => {
    if (ts.isJsxText(node)) return void found.messages.push(node.text);
    if (ts.isStringLiteralLike(node)) found.messages.push(node.text);
    if (ts.isTemplateExpression(node))
      found.messages.push(
        node
          .getText(source)
          .slice(1, -1)
          .replaceAll(/\$\{[^{}]*\}/g, "X"),
      );
    add(ts.getLeadingCommentRanges(text, node.pos));
    add(ts.getTrailingCommentRanges(text, node.end));
    if (ts.isCallExpression(node) && isTitled(node.expression)) {
      const [title] = node.arguments;
      if (title && (ts.isStringLiteralLike(title) || ts.isTemplateExpression(title)))
        found.titles.push(title.getText(source).slice(1, -1));
    }
    const { name } = node as ts.NamedDeclaration;
    if (name && ts.isIdentifier(name) && !ts.isPropertyAccessExpression(node)) found.names.push(name.text);
    ts.forEachChild(node, visit);
  };
  visit(source);
  found.comments = joined(text, ranges);
  const isMessage = (message: string): boolean => message.trim().split(/\s+/).length >= 3;
  found.messages = found.messages.filter(isMessage).map((message) => message.replaceAll(/`[^`]*`/g, "X"));
  return found;
}

/** The texts of comments. Lines that follow each other are one text; code in them is left out. */
function joined(text: string, ranges: Map<number, number>): string[] {
  const texts: string[] = [];
  let last = -1;
  for (const [start, end] of [...ranges].sort(([a], [b]) => a - b)) {
    const bare = bareText(text.slice(start, end));
    const follows = last >= 0 && text.startsWith("//", start) && /^\n[ \t]*$/.test(text.slice(last, start));
    last = text.startsWith("//", start) ? end : -1;
    if (/^(eslint|oxlint|@ts|prettier)/.test(bare)) continue;
    if (follows) texts.push(`${texts.pop() ?? ""}\n${bare}`);
    else texts.push(bare);
  }
  return texts.map((comment) => comment.replaceAll(/`[^`]*`/g, "X"));
}

const bareText = (comment: string): string =>
  comment
    .split("\n")
    .map((line) =>
      line
        .trim()
        .replace(/^(\/\*\*?|\*\/|\*|\/\/)\s?/, "")
        .replace(/\s*\*\/$/, ""),
    )
    .join("\n")
    .trim();

/** Splits names into words: `replayTape` and `replay-tape` into "replay" and "tape". */
const partsOf = (name: string): string[] => name.split(/[-_./\s]|(?<=[a-z0-9])(?=[A-Z])/).filter(Boolean);

const sentencesOf = (text: string): string[] => text.replaceAll(/\n(?!\n|[-*@])/g, " ").split(/(?<=[.:;!?])\s|\n/);

/** Files that people read messages of. Lua and SQL are code. */
const hasMessages = ({ path }: SourceFile): boolean =>
  /^(src|viewer\/src)\//.test(path) && path !== "src/stores/postgres/functions.ts";

/** Lists the violations in a file. */
function complaintsAbout(file: SourceFile): string[] {
  const { comments, titles, messages, names: declared } = wordsIn(file);
  const texts = [...comments, ...titles, ...(hasMessages(file) ? messages : [])].map((text) =>
    text.replaceAll("\n", " "),
  );
  const shown = (text: string): string => JSON.stringify(text.length > 90 ? `${text.slice(0, 90)}…` : text);
  const fileName = file.path.slice(file.path.lastIndexOf("/") + 1);
  return [
    ...prose.flatMap(({ pattern, instead }) =>
      texts
        .filter((text) => pattern.test(text))
        .map((text) => `${file.path}: ${shown(text)} has ${shown(pattern.exec(text)?.[0] ?? "")}; write ${instead}`),
    ),
    ...comments
      .flatMap(sentencesOf)
      .filter((sentence) => sentence.split(/\s+/).length > mostWords)
      .map((sentence) => `${file.path}: ${shown(sentence)} has more than ${mostWords} words`),
    ...names.flatMap(({ pattern, instead }) =>
      [...new Set([...declared, fileName])]
        .filter((name) => !isStored(file, name) && partsOf(name).some((part) => pattern.test(lowered(name, part))))
        .map((name) => `${file.path}: ${name}; write ${instead}`),
    ),
  ];
}

/** Words of a name are compared in lower case, unless the name is that one word. */
const lowered = (name: string, part: string): string => (name === part ? part : part.toLowerCase());

/** "src/core" of src/core/json.ts and src/core/schema/json.ts, "src/" of src/index.ts. */
function folderOf(path: string): string {
  const [top = "", folder = "", ...rest] = path.split("/");
  if (!["src", "tests", "viewer"].includes(top)) return top;
  return rest.length > 0 ? `${top}/${folder}` : `${top}/`;
}

/** The states that older versions wrote have a key with this name. */
const isStored = ({ path }: SourceFile, name: string): boolean => path.startsWith("tests/compat/") && name === "luck";

/** Data that older versions wrote is kept as it was. */
const isFrozen = ({ path }: SourceFile): boolean => path.startsWith("tests/compat/v");
/** This file has to name the words that it refuses. */
const isOurs = ({ path }: SourceFile): boolean => path === "tests/words.test.ts";

const files = ["src", "tests", "viewer", "bench", "tools", "examples"]
  .flatMap((folder) => filesIn(folder, ".ts", ".tsx", ".mjs"))
  .filter((file) => !isFrozen(file) && !isOurs(file));
const folders = [...new Set(files.map(({ path }) => folderOf(path)))].sort();
const complaintsIn = (folder: string): string[] =>
  files.filter(({ path }) => folderOf(path) === folder).flatMap(complaintsAbout);

test.each(folders)("%s has plain words", (folder) => expect(complaintsIn(folder)).toEqual([]));

describe("rules", () => {
  test.each(prose)("refuses $refused", ({ refused, accepted }) => {
    expect(complaintsAbout({ path: "a.ts", text: `// ${refused}\n` })).toHaveLength(1);
    expect(complaintsAbout({ path: "a.ts", text: `test("${refused}", () => {});` })).toHaveLength(1);
    expect(complaintsAbout({ path: "a.ts", text: `// ${accepted}\nconst a = "${refused}";\n` })).toEqual([]);
  });

  test.each(prose)("refuses a message with $refused", ({ refused, accepted }) => {
    expect(complaintsAbout({ path: "src/a.ts", text: `const a = "${refused}";` })).toHaveLength(1);
    expect(complaintsAbout({ path: "src/a.ts", text: `const a = \`\${b}: ${refused}\`;` })).toHaveLength(1);
    expect(complaintsAbout({ path: "src/a.ts", text: `const a = "${accepted}";` })).toEqual([]);
  });

  test.each(names)("refuses the name $refused", ({ refused, accepted }) => {
    expect(complaintsAbout({ path: "a.ts", text: `export const ${refused} = 1;` })).toHaveLength(1);
    expect(complaintsAbout({ path: "a.ts", text: `export const ${accepted} = "${refused}";` })).toEqual([]);
  });

  test("refuses long sentences, and counts each sentence alone", () => {
    const words = (count: number): string => Array.from({ length: count }, () => "word").join(" ");
    expect(complaintsAbout({ path: "a.ts", text: `// ${words(20)}\n// ${words(6)}.\n` })).toHaveLength(1);
    expect(complaintsAbout({ path: "a.ts", text: `// ${words(20)}.\n// ${words(6)}.\n` })).toEqual([]);
  });

  test("reads comments at the end of lines and blocks, and none in strings", () => {
    const text = 'f("// what is this"); // Its luck.\n/** The patience of `luck`. */\nif (f) {\n  f(); // luck\n}\n';
    expect(complaintsAbout({ path: "a.ts", text })).toHaveLength(2);
  });
});
