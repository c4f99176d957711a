// The tutorial, followed to the letter with the packed package: its commands run, and print the shown output.
// A ```sh block is run, unless it says no-run. A ```ts block after "Save this as `FILE`" is saved there. The lines of a
// ```text block must appear in the output of the ```sh block before it, in that order; … stands for anything.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fileAt } from "../files.ts";
import { folderWithPackage, inShell } from "./installed.ts";

interface Block {
  line: number;
  info: string;
  text: string;
  /** The text between it and the previous block. */
  prose: string;
}

function blocksOf(page: string): Block[] {
  const found: Block[] = [];
  let end = 0;
  for (const match of page.matchAll(/^```(.+)\n([^]*?)^```$/gm)) {
    const [all, info = "", text = ""] = match;
    const line = page.slice(0, match.index).split("\n").length;
    found.push({ line, info, text, prose: page.slice(end, match.index) });
    end = match.index + all.length;
  }
  return found;
}

const mark = (line: number): string => `--- docs/tutorial.md:${line}`;

/** The page as a shell script: each block prints where it starts, and the first failing command ends it. */
function scriptOf(blocks: Block[]): string {
  const parts = blocks.flatMap(({ line, info, text, prose }) => {
    const [, file] = /Save this as `([^`]+)`:\s*$/.exec(prose) ?? [];
    if (info === "ts" && file !== undefined) return [`cat > ${file} <<'END OF FILE'\n${text}END OF FILE\n`];
    return info === "sh" ? [`echo '${mark(line)}'\n${text}`] : [];
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

/** The first expected line that is missing from the output, in order. */
function missing(expected: string, printed: string): string | undefined {
  let left = printed.split("\n");
  for (const line of expected.trimEnd().split("\n")) {
    const pattern = line.split("…").map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const at = left.findIndex((found) => new RegExp(`^${pattern.join(".*")}$`).test(found));
    if (at < 0) return line;
    left = left.slice(at + 1);
  }
  return undefined;
}

test("every command of the tutorial works as described", { tags: ["full"], timeout: 120_000 }, async () => {
  const blocks = blocksOf(fileAt("docs/tutorial.md").text);
  const folder = await folderWithPackage("zod", "typescript", "@types/node", "better-sqlite3");
  const bin = await withoutInstalling(folder);
  const { code, stdout, stderr } = await inShell(scriptOf(blocks), folder, bin);
  expect(code, `${stdout}\n${stderr}`).toBe(0);

  const shown = blocks.filter(({ info }) => info === "text");
  expect(shown.length).toBeGreaterThan(4);
  for (const block of shown) {
    const before = blocks[blocks.indexOf(block) - 1] as Block;
    const [printed = ""] = (stdout.split(`${mark(before.line)}\n`)[1] ?? "").split("--- docs/tutorial.md:");
    expect(missing(block.text, printed), `${mark(block.line)}\n${printed}`).toBeUndefined();
  }
});
