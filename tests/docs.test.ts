// The code in the docs compiles and runs, and the links between pages lead to existing targets.
// Every ```ts block of README.md and docs/ is a separate module. `ts continued` continues the block before it on the
// page; `ts no-run` is compiled and not run. A block that should not compile must not be a ```ts block.
// If every console.log of a snippet ends with a comment, the snippet must print these comments.
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import { format } from "node:util";
import ts from "typescript";
import { afterAll, describe, expect, test, vi } from "vitest";
import { readGuide } from "../site/.vitepress/guide.mjs";
import { fileAt, filesIn, root, type SourceFile } from "./files.ts";

const docs = filesIn("docs", ".md");
const pages = [...filesIn(".", ".md"), ...docs];
const pagesWithCode = [...pages.filter(({ path }) => path === "README.md"), ...docs];

// Inside the package, so that "holdfast" is this package and other packages are found.
const folder = join(root, "node_modules/.cache/holdfast-docs", String(process.pid));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Block {
  info: string;
  first: number;
  lines: string[];
}

interface Snippet {
  page: string;
  /** The line of its first block on the page. */
  line: number;
  /** Every line keeps its line number on the page, so that messages name the right one. */
  code: string;
  runs: boolean;
}

/** A page's fenced blocks, and the page with their lines left empty. */
function readPage({ text }: SourceFile): { blocks: Block[]; prose: string[] } {
  const blocks: Block[] = [];
  let open: { block: Block; fence: string } | undefined;
  const prose = text.split("\n").map((line, at) => {
    const [, fence = "", info = ""] = /^\s*(`{3,})\s*(.*?)\s*$/.exec(line) ?? [];
    if (open) {
      if (info === "" && fence.length >= open.fence.length) open = undefined;
      else open.block.lines.push(line);
      return "";
    }
    if (fence === "") return line;
    open = { block: { info, first: at + 1, lines: [] }, fence };
    blocks.push(open.block);
    return "";
  });
  return { blocks, prose };
}

function snippetsOf(page: SourceFile): Snippet[] {
  const snippets: Snippet[] = [];
  for (const { info, first, lines } of readPage(page).blocks) {
    const [language, ...words] = info.split(/\s+/);
    if (language !== "ts") continue;
    const unknown = words.find((word) => word !== "continued" && word !== "no-run");
    if (unknown) throw new Error(`${page.path}:${first}: a ts block can be continued or no-run, not ${unknown}`);
    const before = words.includes("continued") ? snippets.pop() : undefined;
    const code = before?.code ?? "";
    const blank = "\n".repeat(first - (code.split("\n").length - 1));
    snippets.push({
      page: page.path,
      line: before?.line ?? first,
      code: `${code}${blank}${lines.join("\n")}`,
      runs: !words.includes("no-run") && (before?.runs ?? true),
    });
  }
  return snippets;
}

let written = 0;

/** Writes snippets to files, never to the same one twice, because a module is only run once. */
function write(snippets: Snippet[]): string[] {
  mkdirSync(folder, { recursive: true });
  return snippets.map(({ page, line, code }) => {
    const file = join(folder, `${written++}-${page.replaceAll(/\W+/g, "-")}-${line}.ts`);
    // A module even if it imports nothing.
    writeFileSync(file, `${code}\nexport {};\n`);
    return file;
  });
}

function compile(snippets: Snippet[]): string[] {
  const { config } = ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile) as { config: object };
  const { options } = ts.parseJsonConfigFileContent({ ...config, files: [], include: [] }, ts.sys, root);
  const files = write(snippets);
  // A reader's snippet may name something for later.
  const program = ts.createProgram(files, { ...options, noUnusedLocals: false, noUnusedParameters: false });
  return files.flatMap((file, at) =>
    ts.getPreEmitDiagnostics(program, program.getSourceFile(file)).map((diagnostic) => {
      const line = ts.getLineAndCharacterOfPosition(diagnostic.file as ts.SourceFile, diagnostic.start ?? 0).line;
      return `${snippets[at]?.page}:${line + 1}: ${ts.flattenDiagnosticMessageText(diagnostic.messageText, " ")}`;
    }),
  );
}

/** Runs a snippet in an empty folder. Returns its output. */
async function run(snippet: Snippet): Promise<string[]> {
  const printed: string[] = [];
  const log = vi.spyOn(console, "log").mockImplementation((...values) => void printed.push(format(...values)));
  const before = process.cwd();
  const place = mkdtempSync(join(tmpdir(), "holdfast-docs-"));
  try {
    process.chdir(place);
    await import(write([snippet])[0] as string);
  } finally {
    process.chdir(before);
    log.mockRestore();
    rmSync(place, { recursive: true, force: true });
  }
  return printed;
}

/** The output in the comments behind `console.log`; undefined unless every one has a comment. */
function expectedOf({ code }: Snippet): string[] | undefined {
  const lines = code.split("\n").filter((line) => line.includes("console.log("));
  const comments = lines.map((line) => /; \/\/ (.*)$/.exec(line)?.[1]);
  return comments.length > 0 && comments.every((comment) => comment !== undefined) ? comments : undefined;
}

/** Quotes and the layout of objects are not compared. */
const plain = (line: string): string => line.replaceAll("'", '"').replaceAll(/\s+/g, " ");

const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replaceAll(/\s/g, "-");

/** The npm package has docs/; its pages, and the site made of them, cannot link to files elsewhere. */
const isPackaged = (path: string): boolean => path.startsWith("docs/");

/** The broken relative links of a page. */
function deadLinks(page: SourceFile, read: (path: string) => SourceFile | undefined): string[] {
  const prose = readPage(page)
    .prose.join("\n")
    .replaceAll(/`[^`\n]*`/g, "");
  const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g)];
  return links.flatMap(([, link = ""]) => {
    if (/^[a-z]+:/.test(link)) return [];
    const [path = "", anchor] = link.split("#");
    const leadsTo = posix.join(posix.dirname(page.path), path);
    const target = path === "" ? page : read(leadsTo);
    if (!target) return [`${page.path}: ${link} is not there`];
    if (isPackaged(page.path) && !isPackaged(target.path)) return [`${page.path}: ${link} is not in the package`];
    const headings = readPage(target).prose.flatMap((line) => /^#+ (.*)/.exec(line)?.[1] ?? []);
    return anchor && !headings.some((heading) => anchorOf(heading) === anchor)
      ? [`${page.path}: ${link} has no such heading`]
      : [];
  });
}

describe("the docs", () => {
  const snippets = pagesWithCode.flatMap(snippetsOf);

  test("every snippet compiles", () => expect(compile(snippets)).toEqual([]));

  for (const snippet of snippets.filter(({ runs }) => runs)) {
    const expected = expectedOf(snippet);
    test(`the snippet at ${snippet.page}:${snippet.line} runs${expected ? " and prints its comments" : ""}`, async () => {
      const printed = await run(snippet);
      if (expected) expect(printed.map(plain)).toEqual(expected.map(plain));
    });
  }

  test("the sidebar of the site has every page of docs/ once, in a group, and no other", () => {
    const groups = readGuide(fileAt("docs/README.md").text);
    expect(groups.filter(({ items }) => items.length === 0)).toEqual([]);
    const listed = groups.flatMap(({ items }) => items.map(({ link }) => `docs${link}.md`));
    const all = docs.map(({ path }) => path).filter((path) => /^docs\/(?!README)[^/]+$/.test(path));
    expect(listed.toSorted()).toEqual(all.toSorted());
  });

  test("every relative link leads to an existing target", () => {
    const read = (path: string): SourceFile | undefined => {
      if (!existsSync(join(root, path))) return undefined;
      return path.endsWith(".md") ? fileAt(path) : { path, text: "" };
    };
    expect(pages.flatMap((page) => deadLinks(page, read))).toEqual([]);
  });
});

describe("the check of the docs", () => {
  const page = (...lines: string[]): SourceFile => ({ path: "sample.md", text: lines.join("\n") });

  test("a block is a new snippet, or continues the one before", async () => {
    const snippets = snippetsOf(
      page(
        "# Sample",
        "```ts",
        "const one: number = 1;",
        "```",
        "and",
        "```ts continued",
        "console.log(one + 1);",
        "```",
        "```sh",
        "exit 1",
        "```",
        "```ts no-run",
        "process.exit(1);",
        "```",
      ),
    );
    expect(snippets.map(({ line, runs }) => ({ line, runs }))).toEqual([
      { line: 2, runs: true },
      { line: 12, runs: false },
    ]);
    expect(compile(snippets)).toEqual([]);
    expect(await run(snippets[0] as Snippet)).toEqual(["2"]);
  });

  test("a snippet that does not compile is reported with its line on the page", () => {
    const snippets = snippetsOf(page("# Sample", "", "```ts no-run", "", 'const one: number = "1";', "```"));
    expect(compile(snippets)).toEqual(["sample.md:5: Type 'string' is not assignable to type 'number'."]);
  });

  test("a snippet that throws fails", async () => {
    const [snippet] = snippetsOf(page("```ts", 'throw new Error("not like this");', "```"));
    await expect(run(snippet as Snippet)).rejects.toThrow("not like this");
  });

  test("a snippet finds this package by its name", async () => {
    const [snippet] = snippetsOf(
      page(
        "```ts",
        'import { memoryStore } from "holdfast/stores/memory";',
        "console.log(memoryStore().persistent);",
        "```",
      ),
    );
    expect(compile([snippet as Snippet])).toEqual([]);
    expect(await run(snippet as Snippet)).toEqual(["false"]);
  });

  test("a misspelt word on a fence is refused", () => {
    expect(() => snippetsOf(page("```ts norun", "```"))).toThrow("sample.md:1: a ts block can be continued or no-run");
  });

  test("the comments behind console.log are the expected output, if every one has a comment", () => {
    const expected = (...lines: string[]): unknown => expectedOf({ code: lines.join("\n") } as Snippet);
    expect(expected("console.log(1); // 1", "const two = 2;", 'console.log("a", two); // a 2')).toEqual(["1", "a 2"]);
    expect(expected("console.log(1); // 1", "console.log(2);")).toBeUndefined();
    expect(expected("const one = 1;")).toBeUndefined();
    expect(plain("{\n  a: 'b' }")).toBe('{ a: "b" }');
  });

  test("a link from docs/ to a file outside is reported, because the package does not have it", () => {
    const inDocs = { path: "docs/sample.md", text: "[a](../SECURITY.md) [b](other.md)" };
    expect(deadLinks(inDocs, (path) => ({ path, text: "" }))).toEqual([
      "docs/sample.md: ../SECURITY.md is not in the package",
    ]);
  });

  test("a link to a missing page or heading is reported; links in code are ignored", () => {
    const here = page(
      "# One: two",
      "[a](#one-two) [b](gone.md) [c](#three) `[d](no)`",
      "```",
      "[e](no)",
      "```",
      "[f](https://example.com)",
    );
    expect(deadLinks(here, () => undefined)).toEqual([
      "sample.md: gone.md is not there",
      "sample.md: #three has no such heading",
    ]);
  });
});
