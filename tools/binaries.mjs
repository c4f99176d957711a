// Installs the programs that tests and benches start: Redis, Postgres, PgBouncer and a browser, from Debian's packages.
import { spawnSync } from "node:child_process";
import { accessSync, constants, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";

const needed = [
  { name: "redis-server", packages: ["redis-server"] },
  { name: "redis-cli", packages: ["redis-tools"] },
  { name: "postgres", packages: ["postgresql"] },
  { name: "pgbouncer", packages: ["pgbouncer"] },
  { name: "chromium", packages: ["chromium"] },
];

/** Where a program is; undefined if it is not there. @param {string} name @returns {string | undefined} */
export function findBinary(name) {
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin", ...postgresFolders()];
  return folders.map((folder) => join(folder, name)).find(isProgram);
}

/** Debian keeps Postgres out of the PATH. The newest first. */
function postgresFolders() {
  const root = "/usr/lib/postgresql";
  try {
    const versions = readdirSync(root).sort((a, b) => Number(b) - Number(a));
    return versions.map((version) => join(root, version, "bin"));
  } catch {
    return [];
  }
}

/** @param {string} file */
function isProgram(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Installs missing programs, or ends the process with the command to type.
 * @param {{ browser?: boolean }} [options]
 */
export function ensureBinaries({ browser = true } = {}) {
  const missing = () => needed.filter(({ name }) => findBinary(name) === undefined && (browser || name !== "chromium"));
  if (missing().length === 0) return;
  const packages = missing().flatMap(({ packages: names }) => names);
  const command = ["install", "--yes", "--no-install-recommends", ...packages];
  const mayInstall = process.getuid?.() === 0 && findBinary("apt-get") !== undefined;
  if (mayInstall) {
    console.log(`installing ${packages.join(", ")} for the tests`);
    // Installed services are not started: the tests start their own.
    const options = { stdio: "ignore", env: { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" } };
    const apt = (/** @type {string[]} */ args) => spawnSync("apt-get", args, /** @type {any} */ (options)).status === 0;
    // The list of packages may be old or missing.
    if (!apt(command)) {
      apt(["update"]);
      apt(command);
    }
  }
  const left = missing();
  if (left.length === 0) return;
  console.error(`The tests start servers of their own and found no ${left.map(({ name }) => name).join(", ")}. Type:`);
  console.error(`  sudo apt-get install ${left.flatMap(({ packages: names }) => names).join(" ")}`);
  process.exit(1);
}
