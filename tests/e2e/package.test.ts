// The package as users get it: packed, unpacked elsewhere, imported by its name, and type-checked from outside.
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));

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
  const folder = await mkdtemp(join(tmpdir(), "holdfast-package-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await run(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", join(root, "tsconfig.build.json")]);
  await run("npm", ["pack", "--silent", "--pack-destination", folder], { cwd: root });
  const installed = join(folder, "node_modules/holdfast");
  await mkdir(installed, { recursive: true });
  const { stdout: packed } = await run("sh", ["-c", "ls *.tgz"], { cwd: folder });
  await run("tar", ["-xzf", packed.trim(), "-C", installed, "--strip-components=1"], { cwd: folder });
  for (const dependency of ["zod", "@standard-schema", "better-sqlite3", "bindings", "file-uri-to-path", "@types"]) {
    await symlink(join(root, "node_modules", dependency), join(folder, "node_modules", dependency));
  }
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
