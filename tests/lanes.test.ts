// Unit tests start quickly: none of them needs a build or a server. The full lane may run engine tests on servers.
import { posix } from "node:path";
import { expect, test } from "vitest";
import { folders } from "../vitest.config.ts";
import { filesIn, type SourceFile } from "./files.ts";

const isUnit = (path: string): boolean =>
  !Object.values(folders)
    .flat()
    .includes(path.split("/")[1] ?? "");

const isSlow = (path: string): boolean => path === "tests/shared.ts" || path.startsWith("tools/");

/** The import paths from a test, through other test files, to slow modules that a unit test must not import. */
function slowPathsOf(file: SourceFile, files: Map<string, SourceFile>, seen = new Set<string>()): string[] {
  seen.add(file.path);
  const imports = [...file.text.matchAll(/^(?:import|export) [^"]*"(\.[^"]+)";$/gm)].map(([, name = ""]) => name);
  return imports.flatMap((name) => {
    const path = posix.join(posix.dirname(file.path), name);
    if (isSlow(path)) return [path];
    const next = files.get(path);
    // Its kinds that need a server are in the full lane.
    if (next === undefined || path === "tests/every-store.ts" || seen.has(path)) return [];
    return slowPathsOf(next, files, seen).map((rest) => `${path} > ${rest}`);
  });
}

function slowUnitTests(given: SourceFile[]): string[] {
  const files = new Map(given.map((file) => [file.path, file]));
  const tests = given.filter(({ path }) => path.endsWith(".test.ts") && isUnit(path));
  return tests.flatMap((file) => slowPathsOf(file, files).map((path) => `${file.path} > ${path}`));
}

test("a unit test needs no build and no server", () => {
  expect(slowUnitTests(filesIn("tests", ".ts"))).toEqual([]);
});

test("a unit test that needs one is found, also through other files", () => {
  const files = [
    { path: "tests/core/a.test.ts", text: 'import { b } from "./b.ts";\n' },
    { path: "tests/core/b.ts", text: 'import {\n  built,\n} from "../built.ts";\nimport { a } from "./a.ts";\n' },
    { path: "tests/core/c.test.ts", text: 'import { startRedis } from "../../tools/servers/redis.mjs";\n' },
    { path: "tests/built.ts", text: 'import { shared } from "./shared.ts";\n' },
    { path: "tests/stores/d.test.ts", text: 'import { built } from "../built.ts";\n' },
  ];
  expect(slowUnitTests(files)).toEqual([
    "tests/core/a.test.ts > tests/core/b.ts > tests/built.ts > tests/shared.ts",
    "tests/core/c.test.ts > tools/servers/redis.mjs",
  ]);
});
