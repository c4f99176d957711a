// Shows the main features without setup: collects examples/counter with a scripted and a random model.
// Writes to a new folder of runs/ with its sessions in SQLite, and prints the metrics, one transcript and the next
// commands.
// `npm start -- FOLDER` uses that folder instead of runs/.
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { build, findOld, root } from "./build.mjs";
import "./native.mjs";

const command = "dist/cli/main.js";

function run(args) {
  const { status, error } = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" });
  if (error) console.error(error.message);
  if (status !== 0) process.exit(status ?? 1);
}

function holdfast(...args) {
  console.log(`\n$ node ${command} ${args.join(" ")}`);
  run([command, ...args]);
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

const old = findOld();
if (old.length > 0) {
  console.log("building (some seconds, once)");
  const { failed, output } = await build(old);
  if (failed.length > 0) {
    console.error(output);
    process.exit(1);
  }
}

const folder = newFolder(process.argv[2] ?? "runs");
const scripted = `${folder}/scripted.jsonl`;
const random = `${folder}/random.jsonl`;
const repeats = ["--repeats", "4", "--out"];
console.log("The solution of the example plays its 60 tasks, and then a model that calls tools at random.");
holdfast("collect", "examples/counter", "--model", "scripted", ...repeats, scripted);
holdfast("collect", "examples/counter", "--model", "random", ...repeats, random);
console.log("\nThe second run beside the first:");
holdfast("metrics", scripted, random);
console.log("\nOne episode, with the state after each change:");
holdfast("show", scripted, "--task", "3");

const next = [
  ["both runs in a browser: every episode, its state step by step", `view ${scripted} ${random}`],
  ["the same task, played at random", `show ${random} --task 3`],
  ["what the solution did, as rows for fine-tuning", `export ${scripted} --format sft --out ${folder}/sft.jsonl`],
  ["whether the environment keeps what every environment promises", "check examples/counter"],
  ["an environment of your own; docs/tutorial.md goes on from there", "init my-environment"],
];
console.log(`\nAll of it is in ${folder}. Next:`);
for (const [what, args] of next) console.log(`  # ${what}\n  node ${command} ${args}`);
