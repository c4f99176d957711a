// Builds the outdated parts of dist: src with the compiler, the viewer with Vite.
import { execFile } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { root } from "./modules.mjs";

const require = createRequire(import.meta.url);
export { root };

const parts = {
  src: {
    output: "dist/build.tsbuildinfo",
    sources: ["src", "tsconfig.json", "tsconfig.build.json"],
    // Types are checked by `npm run check`. Without, this takes less than half the time.
    command: () => [require.resolve("typescript/bin/tsc"), "-b", "tsconfig.build.json", "--noCheck"],
  },
  viewer: {
    output: "dist/viewer/app.js",
    // The page imports parts of src.
    sources: ["viewer/src", "viewer/vite.config.ts", "src"],
    command: () => [
      join(require.resolve("vite/package.json"), "../bin/vite.js"),
      "build",
      "viewer",
      "--logLevel",
      "warn",
    ],
  },
};

/** When a file or folder last changed; for a folder, the newest of all below it. A folder changes when a file is removed. */
function changedAt(path) {
  const found = statSync(join(root, path), { throwIfNoEntry: false });
  if (!found?.isDirectory()) return found?.mtimeMs ?? 0;
  return Math.max(found.mtimeMs, ...readdirSync(join(root, path)).map((name) => changedAt(`${path}/${name}`)));
}

/** The outdated parts of dist. */
export function findOld() {
  return Object.entries(parts).flatMap(([name, { output, sources }]) =>
    sources.some((source) => changedAt(source) > changedAt(output)) ? [name] : [],
  );
}

/** Builds these parts. */
export async function build(names) {
  const runs = names.map(async (name) => {
    const [status, output] = await run(parts[name].command());
    return { name, status, output };
  });
  const results = await Promise.all(runs);
  return {
    failed: results.filter(({ status }) => status !== 0).map(({ name }) => name),
    output: results.map(({ output }) => output).join(""),
  };
}

function run(args) {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, args, { cwd: root }, (_, stdout, stderr) => {
      resolve([child.exitCode, stdout + stderr]);
    });
  });
}
