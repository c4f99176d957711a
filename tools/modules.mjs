// Installs the modules of package-lock.json where they are missing or outdated.
// Imports no package, so that `npm start` and `npm test` work in a fresh clone.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));

/** The packages that a lock file lists, by their folders. */
function packagesIn(file) {
  try {
    return JSON.parse(readFileSync(join(root, file), "utf8")).packages;
  } catch {
    return {};
  }
}

/** Whether a package is missing or has another version. Optional ones may be missing: most are for other systems. */
function areOutdated() {
  // npm keeps a list of the packages that it installed.
  const installed = packagesIn("node_modules/.package-lock.json");
  return Object.entries(packagesIn("package-lock.json")).some(([folder, { version, optional }]) => {
    const found = installed[folder];
    return folder !== "" && (found ? found.version !== version : !optional);
  });
}

/** Runs a program in the root folder. Ends this process if it fails. */
export function run(command, args, environment = {}) {
  const { status, error } = spawnSync(command, args, {
    cwd: root,
    env: { ...process.env, ...environment },
    stdio: "inherit",
    // On Windows npm is a .cmd file, which only a shell can start.
    shell: command === "npm" && process.platform === "win32",
  });
  if (error) console.error(`${command}: ${error.message}`);
  if (status !== 0) process.exit(status ?? 1);
}

export function ensureModules() {
  if (!areOutdated()) return;
  console.log("Installing the modules of package-lock.json (npm ci), about 20 seconds");
  run("npm", ["ci", "--loglevel=error"]);
}
