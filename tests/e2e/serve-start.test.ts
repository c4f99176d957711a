// docs/start.md, followed to the letter: its environment, its commands, its manual episode.
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { built } from "../built.ts";
import { fileAt, root } from "../files.ts";
import { startServing } from "./serve-process.ts";

const page = fileAt("docs/start.md").text;

/** The code blocks of the page in a language. */
function blocksOf(language: string): string[] {
  return [...page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"))].map(([, text = ""]) => text);
}

test("the steps of docs/start.md work, and print what the page shows", async () => {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-start-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, "node_modules"));
  await symlink(join(root, "node_modules/zod"), join(folder, "node_modules/zod"));
  const holdfast = `"${process.execPath}" "${join(await built(), "cli/main.js")}"`;
  const shell = async (script: string): Promise<string> => {
    const text = `set -e\n${script.replaceAll("npx holdfast", holdfast)}`;
    return (await promisify(execFile)("bash", ["-c", text], { cwd: folder })).stdout;
  };

  const [environment = ""] = blocksOf("ts");
  // The first block installs packages that are present already.
  const [, check = "", serve = "", episode = "", look = "", ...rest] = blocksOf("sh");
  expect(rest).toEqual([]);
  await writeFile(join(folder, "environment.ts"), environment);
  expect(await shell(check)).toContain("27 passed, 0 failed, 0 skipped");

  const words = serve.trim().split(" ");
  expect(words.slice(0, 3)).toEqual(["npx", "holdfast", "serve"]);
  const port = words.indexOf("--port") + 1;
  expect(page).toContain(`listening on http://127.0.0.1:${words[port]}`);
  const { url } = await startServing(words.with(port, "0").slice(3), { cwd: folder });
  const answers = await shell(episode.replaceAll(`http://127.0.0.1:${words[port]}`, url));
  const [seeded, put, refused, taken, verdict] = answers
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as unknown);
  expect(seeded).toMatchObject({ episode: 1 });
  expect([put, taken]).toEqual([{ cents: 600 }, { cents: 500 }]);
  expect(JSON.stringify(refused)).toContain("there are only 600 cents in the till");
  expect(verdict).toMatchObject({ reward: 1 });

  const lines = (await shell(look)).trim().split("\n");
  expect(lines.at(-1)).toContain('"environment":"till"');
});
