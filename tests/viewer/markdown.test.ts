// Markdown of hostile texts: the tree has only known elements and web links, and parsing takes linear time.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseInline, parseMarkdown, type Block, type Inline } from "../../viewer/src/parts/markdown.ts";

const paragraph = (...children: Inline[]): Block => ({ type: "paragraph", children });

describe("blocks", () => {
  test.each<[string, string, Block[]]>([
    ["paragraphs", "one\ntwo\n\nthree", [paragraph("one\ntwo"), paragraph("three")]],
    ["a heading", "## Title", [{ type: "heading", level: 2, children: ["Title"] }]],
    ["code", "```js\n**x**\n```\nafter", [{ type: "code", text: "**x**" }, paragraph("after")]],
    ["code without an end", "```\na\nb", [{ type: "code", text: "a\nb" }]],
    ["a quote", "> a\n> b", [{ type: "quote", children: [paragraph("a\nb")] }]],
    ["a list", "- a\n- b", [{ type: "list", start: undefined, items: [[paragraph("a")], [paragraph("b")]] }]],
    [
      "a nested list",
      "1. a\n   - b\n2. c",
      [
        {
          type: "list",
          start: 1,
          items: [[paragraph("a"), { type: "list", start: undefined, items: [[paragraph("b")]] }], [paragraph("c")]],
        },
      ],
    ],
    ["a rule", "a\n\n---", [paragraph("a"), { type: "rule" }]],
    ["a table", "| a | b |\n|---|---|\n| 1 | 2 |", [{ type: "table", head: [["a"], ["b"]], rows: [[["1"], ["2"]]] }]],
    ["a year at the start of a line", "in\n1986. It", [paragraph("in\n1986. It")]],
  ])("%s", (_, text, blocks) => {
    expect(parseMarkdown(text)).toEqual(blocks);
  });
});

describe("inside a paragraph", () => {
  test.each<[string, Inline[]]>([
    [
      "a **b** *c* ~~d~~",
      [
        "a ",
        { type: "strong", children: ["b"] },
        " ",
        { type: "em", children: ["c"] },
        " ",
        { type: "del", children: ["d"] },
      ],
    ],
    ["`a *b*` c", [{ type: "code", text: "a *b*" }, " c"]],
    ["snake_case_name and 2 * 3 * 4", ["snake_case_name and 2 * 3 * 4"]],
    ["* a *b*", ["* a ", { type: "em", children: ["b"] }]],
    ["\\*no\\*", ["*no*"]],
    ["[x](https://a.example/b)", [{ type: "link", href: "https://a.example/b", children: ["x"] }]],
    [
      "see https://a.example.",
      ["see ", { type: "link", href: "https://a.example", children: ["https://a.example"] }, "."],
    ],
    ["![cat](https://evil.example/x.png)", ["[image: cat]"]],
    ["[x](javascript:alert(1))", ["[x](javascript:alert(1))"]],
    ["[x](data:text/html,1)", ["[x](data:text/html,1)"]],
    ["<img src=x onerror=alert(1)>", ["<img src=x onerror=alert(1)>"]],
  ])("%s", (text, inline) => {
    expect(parseInline(text)).toEqual(inline);
  });
});

function linksIn(tree: unknown): string[] {
  if (typeof tree !== "object" || tree === null) return [];
  const own = "href" in tree && typeof tree.href === "string" ? [tree.href] : [];
  return [...own, ...Object.values(tree).flatMap(linksIn)];
}

test("every link of any text leads to a web page", () => {
  const piece = fc.constantFrom(
    "[",
    "](",
    ")",
    "javascript:",
    "https://",
    "a",
    "*",
    "_",
    "`",
    "\n",
    "- ",
    "> ",
    "| ",
    "![",
    " ",
    "#",
    "```",
  );
  fc.assert(
    fc.property(
      fc.array(piece).map((pieces) => pieces.join("")),
      (text) => {
        for (const href of linksIn(parseMarkdown(text))) expect(href).toMatch(/^https?:\/\//);
      },
    ),
  );
});

test.each([
  "*",
  "**a ",
  "_a",
  "`",
  "``` ",
  "[",
  "![a](",
  "> ",
  "- ",
  "1. ",
  "| ",
  "# ",
  " ",
  "\\",
  "[a](https://x ",
  "https://a)",
])("100 kB of %j takes less than a second", (piece) => {
  const began = performance.now();
  parseMarkdown(piece.repeat(Math.ceil(100_000 / piece.length)));
  parseMarkdown(`x${piece}`.repeat(20_000).slice(0, 19_000));
  expect(performance.now() - began).toBeLessThan(1_000);
});
