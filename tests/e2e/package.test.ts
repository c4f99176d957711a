// The package as users get it: packed, unpacked elsewhere, imported by its name, and type-checked from outside.
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { root } from "../files.ts";
import { folderWithPackage } from "./installed.ts";

const run = promisify(execFile);

const program = `
import { createSessions, defineEnvironment, isHoldfastError, memoryStore, tool } from "holdfast";
import { sqliteStore } from "holdfast/stores/sqlite";
import { storeCases } from "holdfast/testing";
import { z } from "zod";

export const counter = defineEnvironment({
  name: "counter",
  state: z.object({ count: z.number().int().default(0) }),
  task: z.object({ start: z.number().int() }),
  seed: ({ task }) => ({ count: task.start }),
  tools: {
    add: tool({
      description: "Add to the counter.",
      input: z.object({ by: z.number().int() }),
      run: ({ state }, { by }) => { state.count += by; return { count: state.count }; },
    }),
  },
  verify: ({ state }) => state.count,
});

for (const store of [memoryStore(), sqliteStore({ file: "counter.db" })]) {
  const sessions = createSessions({ environment: counter, store });
  const { session } = await sessions.open({ task: { start: 1 } });
  const answer = await sessions.call(session, "add", { by: 2 });
  if (answer.ok) console.log(answer.output.count, (await sessions.verify(session)).reward);
  await sessions.call("nothing", "add", { by: 2 }).catch((error) => console.log(isHoldfastError(error) && error.code));
  await sessions.stop();
  await store.close();
}
console.log(storeCases.length > 50);
`;

test("the packed package works and has its types", { timeout: 120_000 }, async () => {
  const folder = await folderWithPackage("zod", "@photostructure/sqlite", "@types/node");
  await writeFile(join(folder, "package.json"), '{"type":"module"}');
  await writeFile(join(folder, "program.ts"), program);
  const options = [
    "--strict",
    "--declaration",
    "--module",
    "nodenext",
    "--target",
    "es2023",
    "--types",
    "node",
    "program.ts",
  ];
  await run(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), ...options], { cwd: folder }).catch(
    (error: { stdout: string }) => expect(error.stdout).toBe(""),
  );
  const { stdout } = await run(process.execPath, ["program.js"], { cwd: folder });
  expect(stdout.trim().split("\n")).toEqual(["3 3", "session_not_found", "3 3", "session_not_found", "true"]);
});
