// The tutorial, followed to the letter with the packed package: its commands run, and print the shown output.
// A ```sh block is run, unless it says no-run.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fileAt } from "../files.ts";
import { folderWithPackage, inShell } from "./installed.ts";
import { blocksOf, missingLine, savingOf, type Block } from "./pasted.ts";

const mark = (line: number): string => `--- docs/tutorial.md:${line}`;

/** The page as a shell script: each block prints where it starts, and the first failing command ends it. */
function scriptOf(blocks: Block[]): string {
  const parts = blocks.flatMap((block) => {
    const saving = savingOf(block);
    if (saving !== undefined) return [saving];
    return block.info === "sh" ? [`echo '${mark(block.line)}'\n${block.text}`] : [];
  });
  return `set -e\n${parts.join("\n")}`;
}

/** Replaces npm and npx: the packages are present, so installing does nothing and asks no registry. */
async function withoutInstalling(folder: string): Promise<string> {
  const bin = join(folder, "bin");
  await mkdir(bin);
  const scripts = {
    npm: `if [ "$1" = install ]; then exit 0; fi\nPATH="\${PATH#*:}" exec npm "$@"`,
    npx: `exec "$@"`,
  };
  for (const [name, script] of Object.entries(scripts)) {
    await writeFile(join(bin, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }
  return bin;
}

test("every command of the tutorial works as described", { tags: ["full"], timeout: 120_000 }, async () => {
  const blocks = blocksOf(fileAt("docs/tutorial.md").text);
  const folder = await folderWithPackage("zod", "typescript", "@types/node", "@photostructure/sqlite");
  const bin = await withoutInstalling(folder);
  const { code, stdout, stderr } = await inShell(scriptOf(blocks), folder, bin);
  expect(code, `${stdout}\n${stderr}`).toBe(0);

  const shown = blocks.filter(({ info }) => info === "text");
  expect(shown.length).toBeGreaterThan(4);
  for (const block of shown) {
    const before = blocks[blocks.indexOf(block) - 1] as Block;
    const [printed = ""] = (stdout.split(`${mark(before.line)}\n`)[1] ?? "").split("--- docs/tutorial.md:");
    expect(missingLine(block.text, printed), `${mark(block.line)}\n${printed}`).toBeUndefined();
  }
});
