// Errors on the command line: codes are explained, stacks are printed on request, and authors see their own lines.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { run, start } from "../e2e/serve-process.ts";
import { ask, newFile, newFolder } from "./run-process.ts";

test("errors explains a code, suggests one for a misspelt one, and lists all", async () => {
  const { stdout } = await run("errors", "session_busy");
  expect(stdout).toMatch(/^session_busy \(HTTP 409\)\nAn agent is already running on the session/);
  const { code, stderr } = await run("errors", "sesion_busy");
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: 'invalid_option: there is no error code "sesion_busy"; did you mean session_busy?\n',
  });
  expect((await run("errors", "xyz")).stderr).toContain("`holdfast errors` lists the codes");
  expect((await run("errors")).stdout).toMatch(
    /\nsession_busy +an agent is already running on the session, .+; nothing was started.*\n/,
  );
  const narrow = await (await start(["errors"], { env: { COLUMNS: "60" } })).ended;
  expect(narrow.stdout.split("\n").filter((line) => line.length > 60)).toEqual([]);
  expect(narrow.stdout).toMatch(/\nsession_busy +an agent is already running on the\n {24}session, in this or/);
});

test("a file that does not parse is named with line and column; --debug adds the stack", async () => {
  const file = await newFile("environment.ts", "\nexport default { a b };");
  const plain = await run("serve", file);
  expect(plain.stderr).toBe(`cannot_load: ${file}:2:20: Unexpected token, expected ","\n`);
  const script = await newFile("environment.mjs", "\nexport default { a b };");
  expect((await run("serve", script)).stderr).toBe(`cannot_load: ${script}:2:20: Unexpected token, expected ","\n`);
  const debug = await run("serve", file, "--debug");
  expect(debug.stderr).toMatch(/^cannot_load: .*:2:20: .*\nHoldfastError: [\s\S]+\n {4}at /);
});

test("sessions events shows the line of a tool that threw, in TypeScript", async () => {
  const folder = await newFolder();
  const agent = join(folder, "agent.ts");
  const code = `import { defineAgent, scriptedModel, tool } from "holdfast";

interface Row {
  name: string;
}

function nameOf(row: Row | undefined): string {
  return row!.name;
}

export default defineAgent({
  name: "support",
  model: scriptedModel([{ calls: [{ name: "look" }] }, "Done."]),
  tools: { look: tool({ description: "Look.", run: () => nameOf(undefined) }) },
});
`;
  await writeFile(agent, code);
  const store = `sqlite:${join(folder, "chat.db")}`;
  const said = await ask("hello\n", agent, "--store", store, "--session", "s1");
  expect(said.stdout).toMatch(/\[look\] failed: tool_failed: Cannot read properties .*\n {4}in look \(agent\.ts:8\)\n/);
  const debug = await ask("hello\n", agent, "--debug");
  expect(debug.stdout).toMatch(/\n {4}TypeError: Cannot read .*\n {8}at nameOf \(.*agent\.ts:8:\d+\)\n/);
  const { stdout } = await run("sessions", "events", "s1", "--store", store);
  const lines = stdout.split("\n");
  const at = lines.findIndex((line) => line.includes("in look (agent.ts:8)"));
  expect(lines[at]).toMatch(/^ {7}TypeError: Cannot read properties of undefined \(reading 'name'\) in look/);
  expect(lines[at + 1]).toMatch(/^ {7} +at nameOf \(.*agent\.ts:8:\d+\)$/);
  expect(lines[at + 2]).toMatch(/^ {7} +at .*agent\.ts:14:\d+\)?$/);
});
