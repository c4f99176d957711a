// Runs the tests. `npm test` checks everything first; `npm test -- tests/core` runs what matches and checks nothing else;
// `npm test -- --runs=20` tries every property 20 times as often. Any other argument goes to vitest.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { ensureBinaries } from "./binaries.mjs";
import "./native.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const given = process.argv.slice(2);
const isRuns = (argument) => /^--runs(=|$)/.test(argument);
const forVitest = given.filter((argument) => !isRuns(argument));
const runs = given.findLast(isRuns);

if (runs !== undefined && !(Number(runs.slice("--runs=".length)) > 0)) {
  console.error(`${runs}: how many times as often is a number above 0, as in --runs=20`);
  process.exit(1);
}

function run(command, args, environment = {}) {
  // On Windows npm is a .cmd file, which only a shell can start.
  const shell = command === "npm" && process.platform === "win32";
  const { status, error } = spawnSync(command, args, {
    cwd: root,
    env: { ...process.env, ...environment },
    stdio: "inherit",
    shell,
  });
  if (error) console.error(`${command}: ${error.message}`);
  if (status !== 0) process.exit(status ?? 1);
}

ensureBinaries();
const filtered = forVitest.some((argument) => !argument.startsWith("-"));
if (!filtered) run("npm", ["run", "--silent", "check"]);
const vitest = fileURLToPath(new URL("vitest.mjs", import.meta.resolve("vitest/package.json")));
run(process.execPath, [vitest, "run", ...forVitest], runs && { HOLDFAST_RUNS: runs.slice("--runs=".length) });
