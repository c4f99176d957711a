// holdfast init, from the packed package: its project type-checks, passes its test and check, serves and collects.
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { folderWithPackage, inShell } from "./installed.ts";

async function newProject(kind: string): Promise<string> {
  const folder = await folderWithPackage("zod", "typescript", "@types/node", "@photostructure/sqlite");
  const { code, stdout, stderr } = await inShell(`holdfast init sample --kind ${kind}`, folder);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toContain(`Made sample, a ${kind} environment`);
  return join(folder, "sample");
}

/** The URL of its server. */
async function served(project: string): Promise<string> {
  const bin = join(project, "../node_modules/.bin/holdfast");
  const server = spawn(process.execPath, [bin, "serve", ".", "--port", "0"], {
    cwd: project,
    stdio: ["ignore", "pipe", "inherit"],
  });
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
  ["stateless", 5],
  ["stateful", 0],
  ["multi-step", 0],
] as const;

describe.each(kinds)("a new %s environment", (kind, skipped) => {
  test("is tested, checked, served and collected without changes", { tags: ["full"], timeout: 120_000 }, async () => {
    const project = await newProject(kind);
    const tasks = await readFile(join(project, "tasks.jsonl"), "utf8");
    const rows = tasks.trim().split("\n");
    expect(rows.length).toBeGreaterThanOrEqual(10);
    expect(new Set(rows).size).toBe(rows.length);

    // Type-checks first.
    const tested = await inShell("npm test", project);
    expect(tested.stdout).toContain(" fail 0\n");
    expect(tested.code).toBe(0);
    const checked = await inShell("npm run check", project);
    expect(checked.stdout).toContain(` passed, 0 failed, ${skipped} skipped\n`);

    const collected = await inShell("npm run collect", project);
    expect({ code: collected.code, stderr: collected.stderr }).toEqual({ code: 0, stderr: expect.any(String) });
    const lines = (await readFile(join(project, "runs/scripted.jsonl"), "utf8")).trim().split("\n");
    expect(lines.map((line) => (JSON.parse(line) as { reward: number }).reward)).toEqual(rows.map(() => 1));

    const environment = (await (await fetch(`${await served(project)}/v1/environment`)).json()) as { name: string };
    expect(environment.name).toBe("sample");

    // Repeats `npm run tasks`.
    expect((await inShell("node dist/generate.js", project)).stdout).toBe(tasks);
  });
});
