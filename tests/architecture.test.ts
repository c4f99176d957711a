// The import rules and the other rules of the tree that a program can check. Every rule has examples that it refuses.
import { existsSync } from "node:fs";
import { join, posix } from "node:path";
import ts from "typescript";
import { describe, expect, test } from "vitest";
import manifest from "../package.json" with { type: "json" };
import viewerManifest from "../viewer/package.json" with { type: "json" };
import { fileAt, filesIn, root, tableIn, type SourceFile } from "./files.ts";

/** Each folder may import the folders of the rows above its own, and itself. */
const layers = [
  ["core"],
  ["telemetry", "io"],
  ["stores", "models", "environment"],
  ["session"],
  ["testing"],
  ["agent"],
  ["client"],
  ["rollout"],
  ["protocols"],
  ["server", "queue"],
  ["cli", "index.ts"],
];
const layerOf = (part: string): number => layers.findIndex((layer) => layer.includes(part));
const banned = new Set("utils helpers common manager service misc base".split(" "));
const optional = new Set(Object.keys(manifest.peerDependenciesMeta));
const declared = new Set([...Object.keys(manifest.dependencies), ...Object.keys(manifest.peerDependencies)]);
const longest = 400;
/** Lines of `cli/` together: it has only flags, wiring and printing. */
const longestCli = 4000;
/** Values of the root. Types that public signatures name are exported beside them. */
const mostValues = 30;

interface Import {
  from: string;
  kind: "type" | "value" | "lazy";
}

/** Everything that a file imports, in any syntax. */
function importsOf({ path, text }: SourceFile): Import[] {
  const found: Import[] = [];
  const add = (from: ts.Node | undefined, kind: Import["kind"]): void => {
    if (from && ts.isStringLiteralLike(from)) found.push({ from: from.text, kind });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      add(node.moduleSpecifier, node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword ? "type" : "value");
    } else if (ts.isExportDeclaration(node)) {
      add(node.moduleSpecifier, node.isTypeOnly ? "type" : "value");
    } else if (ts.isImportTypeNode(node)) {
      add(ts.isLiteralTypeNode(node.argument) ? node.argument.literal : undefined, "type");
    } else if (ts.isCallExpression(node) && isLoading(node.expression)) {
      add(node.arguments[0], "lazy");
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(path, text, ts.ScriptTarget.Latest));
  return found;
}

function isLoading(callee: ts.Expression): boolean {
  if (callee.kind === ts.SyntaxKind.ImportKeyword) return true;
  const name = ts.isPropertyAccessExpression(callee) ? callee.name : callee;
  return ts.isIdentifier(name) && ["require", "getBuiltinModule"].includes(name.text);
}

const isRelative = (from: string): boolean => from.startsWith(".");
const resolved = ({ path }: SourceFile, from: string): string => posix.join(posix.dirname(path), from);
interface Variants {
  /** Files and folders that all variants may import. */
  shared: string[];
  /** Files that import variants. */
  openers: string[];
}

/** Folders whose files are variants of one contract and do not import each other. */
const variants: { [folder: string]: Variants } = {
  stores: { shared: ["front"], openers: ["open"] },
  models: { shared: ["wire", "local-response"], openers: ["by-name"] },
  protocols: { shared: ["http"], openers: [] },
};

/** "stores" of src/stores/memory.ts, "index.ts" of src/index.ts. */
const partOf = (path: string): string => path.split("/")[1] ?? "";
/** "memory" of src/stores/memory.ts and of src/stores/memory/log.ts. */
const variantOf = (path: string): string => (path.split("/")[2] ?? "").replace(/\.ts$/, "");
const packageOf = (from: string): string => /^(@[^/]+\/)?[^/]+/.exec(from)?.[0] ?? from;
const inSource = (files: SourceFile[]): SourceFile[] => files.filter(({ path }) => path.startsWith("src/"));

type Rule = (files: SourceFile[]) => string[];

const knownFolders: Rule = (files) =>
  inSource(files)
    .filter(({ path }) => layerOf(partOf(path)) < 0)
    .map(({ path }) => `${path} is in no folder of the design`);

const coreImportsNothing: Rule = (files) =>
  files
    .filter(({ path }) => path.startsWith("src/core/"))
    .flatMap((file) =>
      importsOf(file)
        .filter(({ from, kind }) =>
          isRelative(from)
            ? !resolved(file, from).startsWith("src/core/")
            : !(from === "@standard-schema/spec" && kind === "type"),
        )
        .map(({ from }) => `${file.path} imports ${from}`),
    );

const layersImportDownwards: Rule = (files) =>
  inSource(files).flatMap((file) =>
    importsOf(file)
      .filter(({ from }) => isRelative(from) && !mayImport(file.path, resolved(file, from)))
      .map(({ from }) => `${file.path} imports ${from}`),
  );

function mayImport(path: string, target: string): boolean {
  if (!target.startsWith("src/")) return false;
  const [own, other] = [partOf(path), partOf(target)];
  if (own !== other) return layerOf(other) < layerOf(own);
  return !variants[own] || variantMayImport(variantOf(path), variantOf(target), variants[own]);
}

/**
 * A variant imports its own files and the shared ones. A shared file imports only shared files, unless it opens
 * variants by name.
 */
function variantMayImport(own: string, other: string, { shared, openers }: Variants): boolean {
  return own === other || shared.includes(other) || openers.includes(own);
}

const onlyDeclaredPackages: Rule = (files) =>
  inSource(files).flatMap((file) =>
    importsOf(file)
      .filter(({ from }) => !isRelative(from) && !from.startsWith("node:"))
      // The author's code gets this package by its public name.
      .filter(
        ({ from, kind }) => !(file.path === "src/rollout/load.ts" && packageOf(from) === "holdfast" && kind === "lazy"),
      )
      .flatMap(({ from, kind }) => {
        const name = packageOf(from);
        if (!declared.has(name)) return [`${file.path} imports ${name}, which is not declared`];
        if (optional.has(name) && kind === "value")
          return [`${file.path} imports the optional ${name} before it is needed`];
        return [];
      }),
  );

/** The viewer's page runs in a browser, and so must all of its files and the source files they import. */
const viewerRunsInBrowsers: Rule = (files) => {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const packages = new Set(Object.keys(viewerManifest.devDependencies));
  const complaints: string[] = [];
  const seen = new Set<string>();
  const visit = (file: SourceFile): void => {
    if (seen.has(file.path)) return;
    seen.add(file.path);
    const isOurs = file.path.startsWith("viewer/");
    for (const { from, kind } of importsOf(file)) {
      const target = resolved(file, from);
      if (kind === "type" || target.endsWith(".css")) continue;
      const found = byPath.get(target);
      const mayReach = isRelative(from)
        ? found && /^(viewer\/src|src\/core|src\/rollout|src\/client)\//.test(target)
        : isOurs && packages.has(packageOf(from));
      if (!mayReach) complaints.push(`${file.path} imports ${from}`);
      else if (found) visit(found);
    }
  };
  for (const file of files) if (file.path.startsWith("viewer/src/")) visit(file);
  return complaints;
};

const noCycles: Rule = (files) => {
  const graph = new Map(
    files.map((file) => [
      file.path,
      importsOf(file).flatMap(({ from }) => (isRelative(from) ? [resolved(file, from)] : [])),
    ]),
  );
  const done = new Set<string>();
  const cycles: string[] = [];
  const visit = (path: string, trail: string[]): void => {
    const at = trail.indexOf(path);
    if (at >= 0) cycles.push([...trail.slice(at), path].join(" imports "));
    if (at >= 0 || done.has(path)) return;
    for (const next of graph.get(path) ?? []) visit(next, [...trail, path]);
    done.add(path);
  };
  for (const path of graph.keys()) visit(path, []);
  return cycles;
};

const startsWithPurpose: Rule = (files) =>
  files
    .filter(({ text }) => !/^(#!.*\n)?\/\/ \S.*\S/.test(text))
    .map(({ path }) => `${path} does not say in its first line what it is for`);

const staysShort: Rule = (files) =>
  files
    .filter(({ path }) => /^(src|viewer)\//.test(path))
    .map(({ path, text }) => ({ path, lines: text.trimEnd().split("\n").length }))
    .filter(({ lines }) => lines > longest)
    .map(({ path, lines }) => `${path} has ${lines} lines`);

const cliStaysThin: Rule = (files) => {
  const own = files.filter(({ path }) => path.startsWith("src/cli/"));
  const lines = own.reduce((sum, { text }) => sum + text.trimEnd().split("\n").length, 0);
  return lines < longestCli ? [] : [`src/cli has ${lines} lines; move code that other layers could use`];
};

const namesSayWhat: Rule = (files) =>
  files.flatMap(({ path }) => {
    const words = path.split(/[/.-]/);
    const complaints = words.filter((word) => banned.has(word)).map((word) => `${path} is called "${word}"`);
    // At one time, eleven files were called run.ts.
    if (/^src\/.*\/run\.ts$/.test(path) && path !== "src/agent/run.ts")
      complaints.push(`${path} does not say what it runs`);
    return /^[a-z0-9]+(-[a-z0-9]+)*(\.test|\.config|\.d)?\.(ts|tsx|mjs)$/.test(posix.basename(path))
      ? complaints
      : [...complaints, `${path} is not in kebab-case`];
  });

/** The public API: every name by hand, no logic. */
const publicByHand: Rule = (files) => {
  const index = files.find(({ path }) => path === "src/index.ts");
  if (!index) return [];
  const { statements } = ts.createSourceFile(index.path, index.text, ts.ScriptTarget.Latest);
  const clauses = statements.map((statement) =>
    ts.isExportDeclaration(statement) && statement.moduleSpecifier ? statement.exportClause : undefined,
  );
  const complaints = clauses.some((clause) => !clause || !ts.isNamedExports(clause))
    ? ["src/index.ts has something other than export { names } from a file"]
    : [];
  const values = statements
    .filter(ts.isExportDeclaration)
    .filter(({ isTypeOnly }) => !isTypeOnly)
    .flatMap(({ exportClause }) =>
      exportClause && ts.isNamedExports(exportClause) ? exportClause.elements.slice() : [],
    )
    .filter(({ isTypeOnly }) => !isTypeOnly).length;
  return values >= mostValues ? [...complaints, `src/index.ts exports ${values} values`] : complaints;
};

/** A store is a file, a test with the shared cases, and a row of the docs. */
const storesAreComplete: Rule = (files) => {
  const textOf = (path: string): string => files.find((file) => file.path === path)?.text ?? "";
  const { shared = [], openers = [] } = variants["stores"] ?? {};
  const stores = files
    .flatMap(({ path }) => /^src\/stores\/([^/]+)\.ts$/.exec(path)?.[1] ?? [])
    .filter((name) => !shared.includes(name) && !openers.includes(name));
  const rows = tableIn(textOf("docs/stores.md"), "store").map(([name]) => name?.replaceAll("`", "") ?? "");
  return [
    ...stores
      .filter((name) => !/\brunStoreCases\(/.test(textOf(`tests/stores/${name}.test.ts`)))
      .map((name) => `tests/stores/${name}.test.ts does not call runStoreCases`),
    ...stores.filter((name) => !rows.includes(name)).map((name) => `docs/stores.md has no row for ${name}`),
    ...rows
      .filter((name) => !stores.includes(name))
      .map((name) => `docs/stores.md has a row for ${name}, which is not there`),
  ];
};

const examplesImportAsUsersDo: Rule = (files) =>
  files
    .filter(({ path }) => path.startsWith("examples/"))
    .flatMap((file) =>
      importsOf(file)
        .filter(({ from }) => isRelative(from) && !mayExampleImport(file.path, resolved(file, from)))
        .map(({ from }) => `${file.path} imports ${from}`),
    );

/** Its own files, and the environment of another example, which its agent plays. */
const mayExampleImport = (path: string, target: string): boolean =>
  partOf(target) === partOf(path) || /^examples\/[^/]+\/environment\.ts$/.test(target);

const code = ["src", "viewer", "tests", "bench", "examples", "tools"].flatMap((folder) =>
  filesIn(folder, ".ts", ".tsx", ".mjs"),
);
const repository = [...code, fileAt("docs/stores.md")];

const file = (path: string, text = ""): SourceFile => ({ path, text });
const storesDoc = (...names: string[]): SourceFile =>
  file("docs/stores.md", ["| store |", "| --- |", ...names.map((name) => `| \`${name}\` |`)].join("\n"));

const rules: { title: string; rule: Rule; files: SourceFile[]; examples: [SourceFile[], string[]][] }[] = [
  {
    title: "every source file is in a folder of the design",
    rule: knownFolders,
    files: repository,
    examples: [
      [
        [file("src/plumbing/a.ts"), file("src/main.ts")],
        ["src/plumbing/a.ts is in no folder of the design", "src/main.ts is in no folder of the design"],
      ],
    ],
  },
  {
    title: "core imports nothing",
    rule: coreImportsNothing,
    files: repository,
    examples: [
      [[file("src/core/a.ts", `import { b } from "../session/b.ts";`)], ["src/core/a.ts imports ../session/b.ts"]],
      [[file("src/core/a.ts", `import { hash } from "node:crypto";`)], ["src/core/a.ts imports node:crypto"]],
      [[file("src/core/a.ts", `const b = await import("mutative");`)], ["src/core/a.ts imports mutative"]],
      [[file("src/core/a.ts", `process.getBuiltinModule("node:fs");`)], ["src/core/a.ts imports node:fs"]],
      [
        [file("src/core/a.ts", `import { type A } from "@standard-schema/spec";`)],
        ["src/core/a.ts imports @standard-schema/spec"],
      ],
      [[file("src/core/a.ts", `import type { A } from "@standard-schema/spec"; export * from "./b.ts";`)], []],
    ],
  },
  {
    title: "a folder imports only folders of lower layers, and a store no other store",
    rule: layersImportDownwards,
    files: repository,
    examples: [
      [
        [file("src/session/a.ts", `import { b } from "../agent/run.ts";`)],
        ["src/session/a.ts imports ../agent/run.ts"],
      ],
      [
        [file("src/stores/a.ts", `export { memoryStore } from "./memory.ts";`)],
        ["src/stores/a.ts imports ./memory.ts"],
      ],
      [[file("src/queue/a.ts", `import "../server/b.ts";`)], ["src/queue/a.ts imports ../server/b.ts"]],
      [[file("src/testing/a.ts", `type A = import("../index.ts").A;`)], ["src/testing/a.ts imports ../index.ts"]],
      [[file("src/server/a.ts", `import b from "../../tests/b.ts";`)], ["src/server/a.ts imports ../../tests/b.ts"]],
      [[file("src/stores/a.ts", `import "./a/b.ts"; import "../core/c.ts";`)], []],
      [[file("src/agent/a.ts", `import "../session/b.ts"; import "../models/scripted.ts";`)], []],
      [
        [
          file("src/session/a.ts", `import "./b.ts"; import "node:crypto";`),
          file("src/index.ts", `export { a } from "./session/a.ts";`),
        ],
        [],
      ],
    ],
  },
  {
    title: "the source imports only packages that are declared, and optional ones only when they are needed",
    rule: onlyDeclaredPackages,
    files: repository,
    examples: [
      [
        [file("src/session/a.ts", `import { z } from "zod/v4";`)],
        ["src/session/a.ts imports zod, which is not declared"],
      ],
      [
        [file("src/stores/a.ts", `import Database from "@photostructure/sqlite";`)],
        ["src/stores/a.ts imports the optional @photostructure/sqlite before it is needed"],
      ],
      [
        [
          file(
            "src/stores/a.ts",
            `import type D from "@photostructure/sqlite"; await import("@photostructure/sqlite");`,
          ),
        ],
        [],
      ],
    ],
  },
  {
    title: "no file imports itself, directly or through others",
    rule: noCycles,
    files: code,
    examples: [
      [
        [
          file("src/core/a.ts", `import "./b.ts";`),
          file("src/core/b.ts", `import type { C } from "./c.ts";`),
          file("src/core/c.ts", `export { a } from "./a.ts";`),
        ],
        ["src/core/a.ts imports src/core/b.ts imports src/core/c.ts imports src/core/a.ts"],
      ],
    ],
  },
  {
    title: "every file says in its first line what it is for",
    rule: startsWithPurpose,
    files: code,
    examples: [
      [
        [file("src/core/a.ts", `import "./b.ts";\n// later\n`), file("tools/b.mjs", "//\n")],
        [
          "src/core/a.ts does not say in its first line what it is for",
          "tools/b.mjs does not say in its first line what it is for",
        ],
      ],
      [[file("src/cli/a.ts", "#!/usr/bin/env node\n// The command line.\n")], []],
    ],
  },
  {
    title: `no source file is longer than ${longest} lines`,
    rule: staysShort,
    files: repository,
    examples: [
      [
        [file("src/core/a.ts", "x;\n".repeat(401)), file("src/core/b.ts", "x;\n".repeat(400))],
        ["src/core/a.ts has 401 lines"],
      ],
    ],
  },
  {
    title: `cli/ has fewer than ${longestCli} lines`,
    rule: cliStaysThin,
    files: repository,
    examples: [
      [
        [file("src/cli/a.ts", "x;\n".repeat(3000)), file("src/cli/b.ts", "x;\n".repeat(1000))],
        ["src/cli has 4000 lines; move code that other layers could use"],
      ],
      [[file("src/cli/a.ts", "x;\n".repeat(3999)), file("src/core/b.ts", "x;\n")], []],
    ],
  },
  {
    title: "the viewer imports only files that run in a browser",
    rule: viewerRunsInBrowsers,
    files: repository,
    examples: [
      [
        [
          file(
            "viewer/src/a.tsx",
            `import { b } from "../../src/core/b.ts"; import { h } from "preact"; import "./a.css";`,
          ),
          file("src/core/b.ts", `import { hash } from "node:crypto";`),
        ],
        ["src/core/b.ts imports node:crypto"],
      ],
      [
        [
          file(
            "viewer/src/a.tsx",
            `import type { S } from "../../src/session/s.ts"; import { s } from "../../src/session/s.ts";`,
          ),
          file("src/session/s.ts"),
        ],
        ["viewer/src/a.tsx imports ../../src/session/s.ts"],
      ],
      [[file("viewer/src/a.ts", `import undici from "undici";`)], ["viewer/src/a.ts imports undici"]],
    ],
  },
  {
    title: "file names are in kebab-case and say what the file does",
    rule: namesSayWhat,
    files: code,
    examples: [
      [[file("src/session/base-store.ts")], [`src/session/base-store.ts is called "base"`]],
      [[file("src/utils/json.ts")], [`src/utils/json.ts is called "utils"`]],
      [[file("src/cli/collect/run.ts")], ["src/cli/collect/run.ts does not say what it runs"]],
      [[file("src/core/errorTable.ts")], ["src/core/errorTable.ts is not in kebab-case"]],
    ],
  },
  {
    title: `the public API has fewer than ${mostValues} values, each name written by hand`,
    rule: publicByHand,
    files: repository,
    examples: [
      [
        [file("src/index.ts", `export * from "./core/json.ts";`)],
        ["src/index.ts has something other than export { names } from a file"],
      ],
      [
        [file("src/index.ts", `export const answer = 42;`)],
        ["src/index.ts has something other than export { names } from a file"],
      ],
      [
        [
          file(
            "src/index.ts",
            `export { ${Array.from({ length: mostValues }, (_, at) => `n${at}`).join()} } from "./a.ts";`,
          ),
        ],
        [`src/index.ts exports ${mostValues} values`],
      ],
    ],
  },
  {
    title: "every store has a test that runs the shared cases and a row in the docs, and every row a store",
    rule: storesAreComplete,
    files: repository,
    examples: [
      [[file("src/stores/tape.ts"), storesDoc("tape")], ["tests/stores/tape.test.ts does not call runStoreCases"]],
      [
        [file("src/stores/tape.ts"), file("tests/stores/tape.test.ts", "runStoreCases(…)"), storesDoc("disc")],
        ["docs/stores.md has no row for tape", "docs/stores.md has a row for disc, which is not there"],
      ],
    ],
  },
  {
    title: "examples import the package as its users do",
    rule: examplesImportAsUsersDo,
    files: repository,
    examples: [
      [
        [file("examples/shop/environment.ts", `import { tool } from "../../src/index.ts"; import "./prices.ts";`)],
        ["examples/shop/environment.ts imports ../../src/index.ts"],
      ],
      [
        [file("examples/shop/environment.ts", `import "../shared/setup.ts"; import "holdfast";`)],
        ["examples/shop/environment.ts imports ../shared/setup.ts"],
      ],
      [[file("examples/shop-agent/agent.ts", `import shop from "../shop/environment.ts"; import "./prices.ts";`)], []],
    ],
  },
];

for (const { title, rule, files, examples } of rules) {
  describe(title, () => {
    test("the repository keeps to it", () => expect(rule(files)).toEqual([]));
    test.each(examples)("example %# is judged correctly", (example, complaints) => {
      expect(rule(example)).toEqual(complaints);
    });
  });
}

test("docs/architecture.md names files that exist, and functions that they have", () => {
  const { text } = fileAt("docs/architecture.md");
  const walks = text.slice(text.indexOf("## A tool call"));
  const pairs = [...walks.matchAll(/`((?:[\w-]+\/)+[\w-]+\.ts)`(?:,? `(\w+)`)?/g)];
  const wrong = pairs.filter(([, path = "", name]) => {
    const source = existsSync(join(root, "src", path)) ? fileAt(`src/${path}`).text : undefined;
    return source === undefined || (name !== undefined && !new RegExp(`\\b${name}\\b`).test(source));
  });
  expect(wrong.map(([pair]) => pair)).toEqual([]);
  expect(pairs.length).toBeGreaterThan(40);
});
