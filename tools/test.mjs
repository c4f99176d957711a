// Runs the tests of one lane. `npm test` checks the code first and runs the tests without the tag `full`.
// `npm run test:full` runs the tests with the tag. `npm test -- tests/core` runs only the matching tests of the lane.
// `npm test -- --node=24` runs the tests of the lane on that Node, without the checks.
// `npm test -- --runs=20` runs every property 20 times as often. Any other argument goes to vitest.
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { delimiter, dirname, join } from "node:path";
import { ensureBinaries } from "./binaries.mjs";
import { ensureModules, run } from "./modules.mjs";

const given = process.argv.slice(2);
const isFull = given.includes("--full");
const runs = valueOf("runs");
const version = valueOf("node");
const forVitest = given.filter((argument) => !/^--(runs|node)(=|$)|^--full$/.test(argument));

/** The number of the last --NAME=NUMBER. Undefined without one. */
function valueOf(name) {
  const argument = given.findLast((argument) => argument.split("=")[0] === `--${name}`);
  if (argument === undefined) return undefined;
  const value = argument.slice(`--${name}=`.length);
  if (Number(value) > 0) return value;
  console.error(`${argument} needs a number above 0, as in --${name}=20`);
  process.exit(1);
}

/** Downloads a version of Node from npm. Returns its program. */
function nodeOf(version) {
  // The package has a program for this system, and needs no install script.
  const system = `node-${process.platform === "win32" ? "win" : process.platform}-${process.arch}`;
  console.log(`Getting Node ${version} from npm (${system}@${version})`);
  const args = ["exec", "--yes", `--package=${system}@${version}`, "--", "node", "-p", "process.execPath"];
  const { status, stdout, stderr } = spawnSync("npm", args, { encoding: "utf8", shell: process.platform === "win32" });
  if (status === 0) return stdout.trim();
  console.error(stderr);
  process.exit(1);
}

ensureModules();
ensureBinaries({ browser: isFull });
const isFiltered = forVitest.some((argument) => !argument.startsWith("-"));
if (!isFull && !isFiltered && version === undefined) run("npm", ["run", "--silent", "check"]);
const node = version === undefined ? process.execPath : nodeOf(version);
const vitest = join(createRequire(import.meta.url).resolve("vitest/package.json"), "../vitest.mjs");
const lane = `--tags-filter=${isFull ? "full" : "!full"}`;
run(node, [vitest, "run", lane, ...forVitest], {
  // Tests that start npm get the same Node.
  PATH: [dirname(node), process.env["PATH"]].join(delimiter),
  ...(runs !== undefined && { HOLDFAST_RUNS: runs }),
});
