// README.md, pasted block by block into a shell in a copy of the checkout. A ```sh server block goes to a second shell in
// the same folder, and stays there until the next one. Modules come from the npm registry.
import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { freePort } from "../../tools/servers/ports.mjs";
import { built } from "../built.ts";
import { fileAt, root } from "../files.ts";
import { blocksOf, missingLine, savingOf } from "./pasted.ts";

/** The files of the checkout with its build and its modules, as after a first `npm start`. */
async function copyOfCheckout(): Promise<string> {
  await built();
  const folder = mkdtempSync(join(tmpdir(), "holdfast-readme-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { cwd: root });
  const files = String(listed).split("\n");
  const parts = /^(\.npmrc|package|tsconfig|vitest|src|examples|templates|tools|viewer|tests\/(core\/|[^/]*$))/;
  for (const file of [...files.filter((path) => parts.test(path)), "dist"]) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(root, file), join(folder, file), { recursive: true, preserveTimestamps: true });
  }
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  return folder;
}

function openShell(cwd: string) {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(npm_|VITEST|NODE_)/i.test(name));
  const child = spawn("bash", [], { cwd, env: Object.fromEntries(inherited), detached: true });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (printed += String(chunk)));
  const ended = new Promise((resolve) => child.on("close", resolve));
  onTestFinished(end);

  /** Ends the shell and all that it started. */
  async function end(): Promise<void> {
    if (child.exitCode === null && child.signalCode === null) process.kill(-(child.pid as number), "SIGTERM");
    await ended;
  }

  /** Types commands and waits for a text. Returns the output up to its end. */
  async function type(commands: string, until: RegExp): Promise<string> {
    printed = "";
    child.stdin.write(`${commands}\n`);
    for (;;) {
      const found = until.exec(printed);
      if (found) return printed.slice(0, found.index);
      if (child.exitCode !== null) throw new Error(`${commands}\n${printed}`);
      await sleep(20);
    }
  }

  /** Runs commands, and fails if one of them does. */
  const run = (commands: string): Promise<string> => type(`set -e\n${commands}\necho; echo "--- done"`, /\n--- done\n/);
  return { type, run, end };
}

test("every block of the README works as described", { tags: ["full"], timeout: 300_000 }, async () => {
  const page = fileAt("README.md").text.replaceAll("8080", String(await freePort()));
  const terminal = openShell(await copyOfCheckout());
  let second: ReturnType<typeof openShell> | undefined;
  let printed = "";
  let compared = 0;
  for (const block of blocksOf(page)) {
    const { line, info, text } = block;
    const saving = savingOf(block);
    if (saving !== undefined) await terminal.run(saving);
    // All tests are too many for one of them: one file stands for them.
    const command = text === "npm test\n" ? "npm test -- tests/core/merge.test.ts" : text;
    if (info === "sh") printed = await terminal.run(command);
    if (info === "sh server") {
      await second?.end();
      second = openShell((await terminal.run("pwd")).trim());
      printed = await second.type(text, /(?<=listening on \S+\n|http:\/\/\S+\n)/);
    }
    if (info !== "text") continue;
    expect(missingLine(text, printed), `README.md:${line}\n${printed}`).toBeUndefined();
    compared++;
  }
  expect(compared).toBeGreaterThan(5);
});
