// holdfast init, installed from a tarball and run in a checkout: its projects install from the npm registry, and work.
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { built } from "../built.ts";
import { root } from "../files.ts";
import { shared } from "../shared.ts";
import { inShell } from "./installed.ts";

const timeout = 240_000;

async function newFolder(ended: (remove: () => Promise<void>) => void): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-init-"));
  ended(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function succeed(commands: string, folder: string): Promise<string> {
  const { code, stdout, stderr } = await inShell(commands, folder);
  expect(code, `${commands}\n${stdout}\n${stderr}`).toBe(0);
  return stdout;
}

let installed: Promise<string> | undefined;

/** A folder with the package, installed from its tarball. */
async function withTarball(): Promise<string> {
  const folder = await newFolder((remove) => afterAll(remove));
  await writeFile(join(folder, "package.json"), "{}");
  await succeed(`npm install --no-audit --no-fund "${await shared("package")}"`, folder);
  return folder;
}

/** Makes a project and takes the steps that init prints. Returns its folder, and what the last step printed. */
async function followed(init: string, folder: string): Promise<{ project: string; printed: string }> {
  const made = await succeed(`${init} --json`, folder);
  const { name, next } = JSON.parse(made) as { name: string; next: string[] };
  expect(next).toContain("npm install");
  return { project: join(folder, name), printed: await succeed(`(${next.join(" && ")}) </dev/null`, folder) };
}

/** The URL of its server. */
async function served(project: string): Promise<string> {
  const bin = join(project, "node_modules/.bin/holdfast");
  const args = [bin, "serve", ".", "--port", "0"];
  const server = spawn(process.execPath, args, { cwd: project, stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => server.on("close", resolve));
  onTestFinished(async () => {
    server.kill();
    await ended;
  });
  let printed = "";
  for await (const chunk of server.stdout) {
    printed += String(chunk);
    const [, url] = /^listening on (\S+)\n/.exec(printed) ?? [];
    if (url !== undefined) return url;
  }
  throw new Error(`it does not listen: ${printed}`);
}

// A stateless environment has less to check over HTTP.
const kinds = [
  ["stateless", 7],
  ["stateful", 0],
  ["multi-step", 0],
] as const;

test.each(kinds)(
  "a new %s environment is tested, collected, checked and served without changes",
  { tags: ["full"], timeout },
  async (kind, skipped) => {
    const folder = await (installed ??= withTarball());
    const { project, printed } = await followed(`npx holdfast init ${kind}-sample --kind ${kind}`, folder);
    expect(printed).toContain(" fail 0\n");
    const rows = (await readFile(join(project, "tasks.jsonl"), "utf8")).trim().split("\n");
    expect(rows.length).toBeGreaterThanOrEqual(10);
    expect(new Set(rows).size).toBe(rows.length);
    const lines = (await readFile(join(project, "runs/solution.jsonl"), "utf8")).trim().split("\n");
    expect(lines.map((line) => (JSON.parse(line) as { reward: number }).reward)).toEqual(rows.map(() => 1));

    expect(await succeed("npm run check", project)).toContain(` passed, 0 failed, ${skipped} skipped\n`);
    const environment = (await (await fetch(`${await served(project)}/v1/environment`)).json()) as { name: string };
    expect(environment.name).toBe(`${kind}-sample`);
    // Repeats `npm run tasks`.
    expect((await succeed("node dist/generate.js", project)).trim().split("\n")).toEqual(rows);
  },
);

test("a new agent is tested, answers and keeps its state without changes", { tags: ["full"], timeout }, async () => {
  const folder = await (installed ??= withTarball());
  const { project, printed } = await followed("npx holdfast init list --kind agent", folder);
  expect(printed).toContain(" fail 0\n");
  const say = (words: string): Promise<string> =>
    succeed(`echo "${words}" | npm --silent start -- --session groceries`, project);
  expect(await say("add 2 milk")).toContain('{"item":"milk","count":2}');
  expect(await say("add 3 milk")).toContain('{"item":"milk","count":5}');
});

test("a project made by a checkout uses that checkout, and leaves it alone", { tags: ["full"], timeout }, async () => {
  await built();
  const folder = await newFolder(onTestFinished);
  const before = await readFile(join(root, "node_modules/.package-lock.json"), "utf8");
  const main = join(root, "dist/cli/main.js");
  const { project, printed } = await followed(`"${process.execPath}" "${main}" init sample`, folder);
  expect(printed).toContain(" fail 0\n");
  expect(await readFile(join(project, "node_modules/holdfast/package.json"), "utf8")).toContain('"workspaces"');
  expect(await readFile(join(root, "node_modules/.package-lock.json"), "utf8")).toBe(before);
});
