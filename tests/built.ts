// The sources as JavaScript, for tests that start processes of their own: Node 20 does not run TypeScript.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";

/** Compiles src once for a test run, whichever test asks first. Gives the folder that stands for src. */
export async function built(): Promise<string> {
  const folder = process.env["HOLDFAST_BUILT"];
  if (folder === undefined) throw new Error("tests/global-setup.ts did not run");
  const source = join(folder, "src");
  const done = join(folder, "done");
  const first = await mkdir(source).then(
    () => true,
    () => false,
  );
  if (first) {
    const exports = { ".": "./src/index.js", "./testing": "./src/testing/index.js", "./*": "./src/*.js" };
    await writeFile(join(folder, "package.json"), JSON.stringify({ name: "holdfast", type: "module", exports }));
    const [problems] = await Promise.all([compile(source), buildViewer(join(folder, "dist/viewer"))]);
    await writeFile(done, problems);
  }
  const deadline = Date.now() + 50_000;
  while (!existsSync(done)) {
    if (Date.now() > deadline) throw new Error("compiling src took too long");
    await delay(50);
  }
  return source;
}

/** The page of the viewer, where the compiled server looks for it. */
async function buildViewer(outDir: string): Promise<void> {
  const { build } = await import("vite");
  const configFile = fileURLToPath(new URL("../viewer/vite.config.ts", import.meta.url));
  await build({ configFile, logLevel: "error", build: { outDir, emptyOutDir: true } });
}

/** What the compiler had to say. Type errors are for `npm run check` to report; the code is written all the same. */
function compile(outDir: string): Promise<string> {
  const compiler = createRequire(import.meta.url).resolve("typescript/bin/tsc");
  const project = fileURLToPath(new URL("../tsconfig.build.json", import.meta.url));
  const args = [compiler, "-p", project, "--outDir", outDir, "--declaration", "false", "--incremental", "false"];
  return new Promise((resolve) => execFile(process.execPath, args, (_, stdout) => resolve(stdout)));
}
