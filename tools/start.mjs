// Shows the main features without setup: collects examples/counter with a scripted and a random model.
// Writes to a new folder of runs/ with its sessions in SQLite, and prints the metrics, one transcript and the next
// commands.
// `npm start -- FOLDER` uses that folder instead of runs/.
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { build, findOld } from "./build.mjs";
import { ensureModules, root, run } from "./modules.mjs";

/** Builds a part of dist if it is outdated. */
async function ensureBuilt(part, note) {
  if (!findOld().includes(part)) return;
  console.log(note);
  const { failed, output } = await build([part]);
  if (failed.length === 0) return;
  console.error(output);
  process.exit(1);
}

function holdfast(...args) {
  console.log(`\n$ npx holdfast ${args.join(" ")}`);
  run(process.execPath, ["dist/cli/main.js", ...args]);
}

/** The first of start-1, start-2 and so on that does not exist yet. */
function newFolder(parent) {
  mkdirSync(resolve(root, parent), { recursive: true });
  for (let number = 1; ; number++) {
    const folder = `${parent}/start-${number}`;
    try {
      mkdirSync(resolve(root, folder));
      return folder;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
  }
}

ensureModules();
await ensureBuilt("src", "Building dist, about 10 seconds");

const folder = newFolder(process.argv[2] ?? "runs");
const scripted = `${folder}/scripted.jsonl`;
const random = `${folder}/random.jsonl`;
const repeats = ["--repeats", "4", "--out"];
console.log("Two models play the 60 tasks of examples/counter: its solution, then a model that calls tools at random.");
holdfast("collect", "examples/counter", "--model", "scripted", ...repeats, scripted);
holdfast("collect", "examples/counter", "--model", "random", ...repeats, random);
console.log("\nCompare the two:");
holdfast("metrics", scripted, random);
console.log("\nRead one episode, with the state after each change:");
holdfast("show", scripted, "--task", "3");

await ensureBuilt("viewer", "\nBuilding the viewer, about 5 seconds");
const next = [
  ["open both in a browser: every episode, its state step by step", `view ${scripted} ${random}`],
  ["read the same task, played at random", `show ${random} --task 3`],
  ["write the solution's answers as rows for fine-tuning", `export ${scripted} --format sft --out ${folder}/sft.jsonl`],
  ["check the environment against the promises of every environment", "check examples/counter"],
  ["make an environment of your own; docs/tutorial.md continues from there", "init my-environment"],
];
console.log(`\nThe files are in ${folder}. Next, you can`);
for (const [what, args] of next) console.log(`  # ${what}\n  npx holdfast ${args}`);
