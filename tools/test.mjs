// Runs the tests of one lane. `npm test` checks the code first and runs the tests without the tag `full`.
// `npm run test:full` runs the tests with the tag. `npm test -- tests/core` runs only the matching tests of the lane.
// `npm test -- --runs=20` runs every property 20 times as often. Any other argument goes to vitest.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { ensureBinaries } from "./binaries.mjs";
import "./native.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const given = process.argv.slice(2);
const isRuns = (argument) => /^--runs(=|$)/.test(argument);
const forVitest = given.filter((argument) => !isRuns(argument) && argument !== "--full");
const runs = given.findLast(isRuns);
const isFull = given.includes("--full");

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

ensureBinaries({ browser: isFull });
const isFiltered = forVitest.some((argument) => !argument.startsWith("-"));
if (!isFull && !isFiltered) run("npm", ["run", "--silent", "check"]);
const vitest = fileURLToPath(new URL("vitest.mjs", import.meta.resolve("vitest/package.json")));
const lane = `--tags-filter=${isFull ? "full" : "!full"}`;
run(process.execPath, [vitest, "run", lane, ...forVitest], runs && { HOLDFAST_RUNS: runs.slice("--runs=".length) });
