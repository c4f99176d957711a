// docs/patterns.md, followed to the letter with the packed package: its code prints the shown output, and its mistakes
// fail.
// Its checklist runs and names existing cases.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { errorTable } from "../../src/core/errors.ts";
import { fileAt, tableIn } from "../files.ts";
import { folderWithPackage, inShell, type Printed } from "./installed.ts";
import { startServing } from "./serve-process.ts";

// The first test packs the package.
const timeout = 120_000;
const page = fileAt("docs/patterns.md").text;

function blocksOf(text: string, language: string): string[] {
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"))].map(([, code = ""]) => code);
}

/** The expected output of printing lines, from the comments at their ends. */
function expectedOf(code: string, printing: RegExp, comment: RegExp): string[] {
  const lines = code.split("\n").filter((line) => printing.test(line));
  return lines.map((line) => comment.exec(line)?.[1] ?? `a comment at the end of: ${line}`);
}

const linesOf = (text: string): string[] => text.trimEnd().split("\n");
const codeIn = (text: string): string[] => [...text.matchAll(/`([^`\n]+)`/g)].map(([, code = ""]) => code);

const snippets = blocksOf(page, "ts");
const [cookies = "", checklist = "", ...more] = blocksOf(page, "sh");

test("every snippet prints the output in its comments", { tags: ["full"], timeout }, async () => {
  expect(snippets.length).toBeGreaterThan(3);
  const folder = await folderWithPackage("zod");
  for (const code of snippets) {
    await writeFile(join(folder, "try.ts"), code);
    const { stdout, stderr } = await inShell("node node_modules/jiti/lib/jiti-cli.mjs try.ts", folder);
    expect(stderr).toBe("");
    expect(linesOf(stdout)).toEqual(expectedOf(code, /console\.log\(/, /; \/\/ (.*)$/));
  }
});

describe("the mistakes", () => {
  const rows = tableIn(page, "", "mistake");
  // Up to the first session.
  const [definition = ""] = snippets.at(-1)?.split("const sessions =") ?? [];

  /** Runs `holdfast check` on an environment with only this tool of the page. */
  async function checked(folder: string, name: string): Promise<Printed & { failed: string[] }> {
    const only = `tools: { ${name}: mistakes.tools.${name} }, verify: () => 0`;
    const code = `${definition}\nexport default defineEnvironment({ name: "only", state: mistakes.state as never, ${only} });\n`;
    await writeFile(join(folder, `${name}.ts`), code);
    const printed = await inShell(`holdfast check ${name}.ts`, folder);
    const failed = linesOf(printed.stdout).flatMap((line) => /^fail +(.*)/.exec(line)?.[1] ?? []);
    return { ...printed, failed };
  }

  test(
    "the recommended code passes the check, and the mistakes fail the promises in the table",
    { tags: ["full"], timeout },
    async () => {
      const folder = await folderWithPackage("zod");
      const found: string[] = [];
      for (const [number = "", , happens = ""] of rows) {
        if (!definition.includes(`right_${number}:`)) continue;
        const right = await checked(folder, `right_${number}`);
        expect(right.stdout, right.stderr).toContain("pass     ISOLATION: two sessions share nothing");
        expect(right.failed.filter((name) => /^[A-Z-]+: /.test(name))).toEqual([]);
        const [, promise] = /\((\S+) fails\)/.exec(happens) ?? [];
        if (promise === undefined) continue;
        found.push(promise);
        const wrong = await checked(folder, `wrong_${number}`);
        expect(wrong.code).toBe(1);
        expect(wrong.failed.join("\n")).toContain(`${promise}: `);
      }
      expect(found).toEqual(["ISOLATION", "REPLAY"]);
    },
  );

  test("a client that drops the cookie has no session, and its calls are refused", { timeout }, async () => {
    const folder = await folderWithPackage("zod");
    const [till = ""] = blocksOf(fileAt("docs/start.md").text, "ts");
    await writeFile(join(folder, "environment.ts"), till);
    const { url } = await startServing([".", "--port", "0"], { cwd: folder });
    const { stdout } = await inShell(cookies.replaceAll("http://127.0.0.1:8080", url), folder);
    const [, put, , putWithJar, ...rest] = linesOf(stdout);
    expect([put, putWithJar]).toEqual(expectedOf(cookies, /^post put/, / # (.*)$/));
    expect(rest).toEqual([]);
    const headers = { "content-type": "application/json" };
    const reply = await fetch(`${url}/put`, { method: "POST", headers, body: '{"cents":300}' });
    expect(reply.status).toBe(409);
  });
});

test("the checklist runs, and every case that it names is tried", { tags: ["full"], timeout }, async () => {
  const commands = linesOf(checklist.replaceAll("npx ", "").replaceAll(/&& npm install$/gm, ""));
  const [init = "", npmTest = "", check = "", serve = "", checkUrl = "", checkStore = "", ...rest] = commands;
  expect([...rest, ...more]).toEqual([]);
  const parent = await folderWithPackage("zod", "typescript", "@types/node", "@photostructure/sqlite");
  const folder = join(parent, "thermostat");
  const run = async (command: string, cwd: string): Promise<string> => {
    const { code, stdout, stderr } = await inShell(command, cwd);
    expect(code, `${command}\n${stdout}\n${stderr}`).toBe(0);
    return stdout;
  };
  await run(init, parent);
  const tested = await run(npmTest, folder);
  const target = await run(check, folder);
  const [, words = ""] = /^holdfast serve (.*) & sleep \d+ # until it listens$/.exec(serve) ?? [];
  const { url } = await startServing(words.replace("--port 8080", "--port 0").split(" "), { cwd: folder });
  const server = await run(checkUrl.replace("http://127.0.0.1:8080", url), folder);
  const store = await run(checkStore, folder);

  const passed = (printed: string, name: string): boolean => linesOf(printed).includes(`pass     ${name}`);
  const rows = tableIn(page, "requirement");
  const [inProcess, overHttp] = [
    rows.flatMap(([, own = ""]) => codeIn(own)),
    rows.flatMap(([, , own = ""]) => codeIn(own)),
  ];
  expect(Math.min(inProcess.length, overHttp.length)).toBeGreaterThan(6);
  expect(inProcess.filter((name) => !passed(target, name) || !tested.includes(name))).toEqual([]);
  expect(overHttp.filter((name) => !passed(target, name) || !tried(server, name))).toEqual([]);
  const named = codeIn(page.slice(page.indexOf("`check --store URL` runs"))).filter((code) => /^[A-Z-]+: /.test(code));
  expect(named.length).toBe(2);
  expect(named.filter((name) => !passed(store, name))).toEqual([]);
});

/** Without a known solution, some cases of a server are tried only in part. */
function tried(printed: string, name: string): boolean {
  return linesOf(printed).some(
    (line) => line === `pass     ${name}` || line.startsWith(`skipped  ${name} (there is no solution`),
  );
}

test("the numbers are the measured ones, and the codes exist", () => {
  const bench = fileAt("bench/README.md").text;
  const numbers = tableIn(page, "store", "speed: calls per second").flatMap(
    ([, speed = ""]) => speed.match(/[\d,]{4,}/g) ?? [],
  );
  expect(numbers.length).toBeGreaterThan(2);
  expect(numbers.filter((number) => !bench.includes(number))).toEqual([]);
  const promises = new Set(tableIn(fileAt("docs/promises.md").text, "id").map(([id]) => id));
  const ids = [...page.matchAll(/`([A-Z-]+): |\((\S+) fails\)/g)].map(([, one, other]) => one ?? other);
  expect(ids.filter((id) => !promises.has(id))).toEqual([]);
  const prose = page.replaceAll(/^```.*?^```$/gms, "");
  const codes = codeIn(prose).filter((code) => /^[a-z]+(_[a-z]+)+$/.test(code) && code !== "seed_session");
  expect(codes).toContain("outcome_unknown");
  expect(codes.filter((code) => !Object.hasOwn(errorTable, code))).toEqual([]);
});
