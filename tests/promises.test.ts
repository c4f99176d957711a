// Every promise marked as kept in docs/promises.md is named by the title of a test, and no title names an unknown
// promise.
import ts from "typescript";
import { expect, test } from "vitest";
import { fileAt, filesIn, tableIn, type SourceFile } from "./files.ts";

const ids =
  "ISOLATION ATOMIC DURABLE ONCE SERIAL SEED MISSING PURE-VERIFY SCORED RESERVED TOKEN CLEANUP FORK REPLAY GROWTH LIFECYCLE TEMP RESUME";

const promises = tableIn(fileAt("docs/promises.md").text, "id", "promise", "since").map(([id = "", , since = ""]) => ({
  id,
  kept: /^kept\b/.test(since),
  since,
}));

/** The titles of a file's tests, and the names of its shared cases. Skipped tests do not count. */
function titlesOf({ path, text }: SourceFile): string[] {
  const titles: string[] = [];
  const visit = (node: ts.Node): void => {
    const title = ts.isCallExpression(node)
      ? isTest(node.expression) && node.arguments[0]
      : ts.isPropertyAssignment(node) && node.name.getText() === "name" && node.initializer;
    if (title && (ts.isStringLiteralLike(title) || ts.isTemplateExpression(title))) {
      titles.push(title.getText().slice(1, -1));
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true));
  return titles;
}

/** Whether the callee is `test` or `it`, also as in test.each(rows), or runs one on every store. */
function isTest(callee: ts.Expression): boolean {
  if (ts.isIdentifier(callee)) return ["test", "it", "onEveryStore", "onStore", "onStorage"].includes(callee.text);
  if (ts.isCallExpression(callee)) return isTest(callee.expression);
  return (
    ts.isPropertyAccessExpression(callee) &&
    !["skip", "todo", "fails"].includes(callee.name.text) &&
    isTest(callee.expression)
  );
}

const cites = (title: string, id: string): boolean => new RegExp(`(?<![\\w-])${id}(?![\\w-])`).test(title);

/** The ids that a title starts with: "ONCE: …", "ONCE, SERIAL: …", "ONCE and SERIAL: …". */
function leadingIds(title: string): string[] {
  const id = "[A-Z][A-Z-]*[A-Z]";
  const [, list = ""] = new RegExp(`^(${id}(?:(?:, | and )${id})*): `).exec(title) ?? [];
  return list.split(/, | and /).filter(Boolean);
}

interface Promised {
  id: string;
  kept: boolean;
}

/** Lists the mismatches between the promises and the titles. */
function complaintsAbout(promises: Promised[], titles: string[]): string[] {
  const known = new Set(promises.map(({ id }) => id));
  return [
    ...promises
      .filter(({ id, kept }) => kept && !titles.some((title) => cites(title, id)))
      .map(({ id }) => `${id} is marked as kept, and no test names it`),
    ...promises
      .filter(({ id, kept }) => !kept && titles.some((title) => cites(title, id)))
      .map(({ id }) => `${id} is named by a test, and marked as not built yet`),
    ...titles.flatMap((title) =>
      leadingIds(title)
        .filter((id) => !known.has(id))
        .map((id) => `${id} is named by a test, and is no promise`),
    ),
  ];
}

test("the documented promises are those of the design, each kept or not built yet", () => {
  expect(promises.map(({ id }) => id)).toEqual(ids.split(" "));
  expect(promises.filter(({ since }) => !/^(kept( for .+; .+ not built yet)?|not built yet)$/.test(since))).toEqual([]);
});

test("every kept promise is named by a test, and no other", () => {
  const files = [...filesIn("tests", ".test.ts"), ...filesIn("src/testing", ".ts")];
  expect(complaintsAbout(promises, files.flatMap(titlesOf))).toEqual([]);
});

// A promise made of "a session" holds for episodes and conversations. Titles in these files are about conversations.
const ofSessions = "ISOLATION ATOMIC DURABLE ONCE SERIAL TOKEN CLEANUP FORK REPLAY GROWTH".split(" ");
const aboutAgents = /^tests\/(agent\/|e2e\/agent\/|session\/conversation|protocols\/agents)/;
const aboutBoth = "tests/session/both-kinds.test.ts";

test.each(ofSessions)("%s is named by a test on environments and by one on agents", (id) => {
  const isOfAgent = ({ path }: SourceFile, title: string): boolean =>
    aboutAgents.test(path) || /\b(agents?|conversations?|turns?)\b/.test(title);
  const kinds = filesIn("tests", ".test.ts").flatMap((file) =>
    titlesOf(file)
      .filter((title) => cites(title, id))
      .flatMap((title) => (file.path === aboutBoth ? [true, false] : [isOfAgent(file, title)])),
  );
  expect(new Set(kinds)).toEqual(new Set([true, false]));
});

test("titles are found in every form of a test, unless it is skipped", () => {
  const text = [
    'test("plain", () => {});',
    'it.concurrent("through a property", () => {});',
    "test.each(rows)(`of ${rows}`, () => {});",
    'test.skip("skipped", () => {});',
    'it.todo("to do");',
    'const cases = [{ name: "a shared case", run() {} }];',
    'somethingElse("no title");',
  ].join("\n");
  const titles = ["plain", "through a property", "of ${rows}", "a shared case"];
  expect(titlesOf({ path: "a.test.ts", text })).toEqual(titles);
});

test("a promise without a test, a test without a promise, and an early claim are reported", () => {
  const promises = [
    { id: "VERIFY", kept: true },
    { id: "PURE-VERIFY", kept: true },
    { id: "LATER", kept: false },
  ];
  const titles = ["PURE-VERIFY, FOO: asking twice", "LATER and PURE-VERIFY: hold", "JSON stays JSON", "verify"];
  expect(complaintsAbout(promises, titles)).toEqual([
    "VERIFY is marked as kept, and no test names it",
    "LATER is named by a test, and marked as not built yet",
    "FOO is named by a test, and is no promise",
  ]);
});
