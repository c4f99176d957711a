// Environments are loaded from any folder with this copy of the package, and errors are clear.
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { load, loadServed } from "../../src/rollout/load.ts";
import { openStore } from "../../src/stores/open.ts";
import { createSessions } from "../../src/session/sessions.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { root } from "../files.ts";

let folder = "";

// Outside the repository, so that only the loader leads to this package.
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "holdfast-load-"));
  await mkdir(join(folder, "node_modules"));
  await symlink(join(root, "node_modules/zod"), join(folder, "node_modules/zod"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function file(name: string, text: string): Promise<string> {
  const path = join(folder, name);
  await mkdir(join(path, ".."), { recursive: true });
  await writeFile(path, text);
  return path;
}

const script = `
import { defineEnvironment, tool } from "holdfast";
export default defineEnvironment({ name: "plain", tools: { ping: tool({ description: "Ping.", run: () => "pong" }) } });
`;

const typed = `
import { defineEnvironment, isHoldfastError, tool } from "holdfast";
import { memoryStore } from "holdfast/stores/memory";
import { z } from "zod";
import { start } from "./start.ts";
interface Shape { count: number }
const initial: Shape = { count: start };
export default defineEnvironment({
  name: "typed",
  state: z.object({ count: z.number().default(0) }),
  seed: () => initial,
  tools: {
    add: tool({ description: "Add.", input: z.object({ by: z.number() }), run: ({ state }, { by }) => (state.count += by) }),
    same: tool({ description: "Same.", run: () => memoryStore().persistent || isHoldfastError(1) }),
  },
});
`;

describe("an environment is loaded from", () => {
  test("a folder of this repository, with the solution beside it", async () => {
    const { environment, solution } = await load("examples/counter");
    expect(environment.name).toBe("counter");
    expect(solution).toBeTypeOf("function");
  });

  test("a TypeScript folder elsewhere that imports the package by its name", async () => {
    await file("typed/start.ts", "export const start: number = 2;");
    await file("typed/environment.ts", typed);
    await file("typed/tasks.jsonl", "only `check` and `collect` read the tasks");
    const { environment, solution } = await load(join(folder, "typed"));
    expect(solution).toBeUndefined();
    const sessions = createSessions({ environment, store: memoryStore() });
    const { session } = await sessions.open({ task: {} });
    expect(await sessions.call(session, "add", { by: 3 })).toMatchObject({ ok: true, output: 5 });
    expect(await sessions.call(session, "same")).toMatchObject({ ok: true, output: false });
  });

  test("a JavaScript file elsewhere", async () => {
    const { environment } = await load(await file("plain.mjs", script));
    expect([...environment.definitions.keys()]).toEqual(["ping"]);
  });

  test("a package, resolved from the working folder", async () => {
    await file("node_modules/plain-environment/package.json", '{"type":"module","exports":{"import":"./index.js"}}');
    await file("node_modules/plain-environment/index.js", script);
    const before = process.cwd();
    const change = (to: string): void => process.chdir(to);
    // Worker threads of vitest cannot change their folder.
    try {
      change(folder);
      expect((await load("plain-environment")).environment.name).toBe("plain");
    } finally {
      change(before);
    }
  });
});

describe("the kind of the target is detected:", () => {
  const agent = `import { defineAgent, scriptedModel } from "holdfast";
    export default defineAgent({ name: "helper", model: scriptedModel(["Hi."]) });`;

  test("a folder or a file with an environment, or with an agent", async () => {
    await file("environments/environment.mjs", script);
    await file("agents/agent.ts", agent);
    const named = await file("named.ts", agent.replace("export default", "export const agent ="));
    await file("both/environment.mjs", script);
    await file("both/agent.ts", agent);
    const kindOf = async (target: string): Promise<string> => {
      const served = await loadServed(target);
      return "agent" in served ? served.agent.name : served.environment.name;
    };
    const targets = ["environments", "environments/environment.mjs", "agents", "agents/agent.ts", "both"];
    expect(await Promise.all(targets.map((target) => kindOf(join(folder, target))))).toEqual([
      "plain",
      "plain",
      "helper",
      "helper",
      "plain",
    ]);
    expect(await kindOf(named)).toBe("helper");
    const wrong = await file("neither.mjs", "export default 3;");
    await expect(loadServed(wrong)).rejects.toMatchObject({ code: "cannot_load" });
    await file("neither/readme.txt", "");
    await expect(loadServed(join(folder, "neither"))).rejects.toThrow("contains neither an environment nor an agent");
  });
});

describe("errors are reported:", () => {
  const refusals: [string, string | undefined, string][] = [
    ["gone/environment.ts", undefined, "gone/environment.ts does not exist"],
    ["empty/readme.txt", "", "has no environment.ts, .js or .mjs"],
    ["nothing.ts", "export const environment = 1;", "has no default export"],
    ["number.mjs", "export default 3;", "is not an environment"],
    // Vitest may load these itself, and says less; tests/cli/errors.test.ts has the line and column.
    ["syntax.ts", "\nexport default { a b };", "/syntax.ts:"],
    ["syntax.mjs", "\nexport default { a b };", "/syntax.mjs: "],
    ["throws.ts", '\nthrow new Error("not today");', "/throws.ts:2: not today"],
    ["bug.ts", "interface A { b: { c: 1 } }\n\n(undefined as unknown as A).b.c;", "/bug.ts:3: TypeError: Cannot read"],
    ["bug.mjs", "\n\nundefined.b;", "/bug.mjs:3: TypeError: Cannot read"],
    [
      "missing.ts",
      '\nimport "no-such-package"; export default 1;',
      "/missing.ts:2:9: Cannot find module 'no-such-package'",
    ],
    [
      "name.ts",
      'import { defineEnvironment } from "holdfast"; export default defineEnvironment({ name: "" });',
      "name",
    ],
  ];
  test.each(refusals)("%s", async (name, text, message) => {
    const path = text === undefined ? join(folder, name) : await file(name, text);
    const target = name.startsWith("empty/") ? join(folder, "empty") : path;
    const error = await load(target).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "cannot_load" });
    expect((error as Error).message).toContain(message);
    expect((error as Error).message).not.toContain("\n");
  });

  test("a package that is not installed", async () => {
    await expect(load("no-such-package-here")).rejects.toMatchObject({
      code: "cannot_load",
      message: "no-such-package-here is not a folder, a file or an installed package",
    });
  });

  test("an unknown store", async () => {
    await expect(openStore("mysql://me:secret@host")).rejects.toThrow(
      '"mysql://…@host" is not a valid store URL; use memory:',
    );
    await expect(openStore("sqlite:a.db", { cold: "sqlite:a.db" })).rejects.toThrow(
      "--cold and --store must be different stores",
    );
    await expect(openStore("redis://host?expire=9", { cold: "sqlite:a.db" })).rejects.toThrow("expire");
    await expect(openStore("sqlite:")).rejects.toThrow("a SQLite store needs a file, as in sqlite:runs.db");
    await expect(openStore("counter.db")).rejects.toThrow("is not a valid store URL");
  });
});
