// holdfast runs: lists the collections in a folder.
import type { Command } from "commander";
import { cannotLoad } from "../core/errors.ts";
import { listCollections, type ListedCollection } from "../rollout/list-collections.ts";
import { terminalWidth, wrap } from "./help.ts";
import { figure, tableLines } from "./metrics/table.ts";
import { plainLine, print } from "../io/plain.ts";
import { note } from "./notes.ts";

const example = `
Examples:
  $ npx holdfast runs
  $ npx holdfast runs experiments --json

The list comes from the run record of each collection, NAME_run.json, so it is
fast even for large collections. A collection that is still running, or was
killed, has no results yet.`;

export function add(program: Command): void {
  program
    .command("runs")
    .description(
      "List the collections in a folder and in the folders directly below it: player, tasks, mean reward, failures and date.",
    )
    .argument("[folder]", "folder of collections", "runs")
    .option("--json", "print one line of JSON per collection")
    .addHelpText("after", example)
    .action(list);
}

const heading = ["collection", "played by", "tasks", "rollouts", "mean reward", "failed", "date"];

function list(folder: string, { json }: { json?: boolean }): void {
  const found = listCollections(folder, note);
  if (json) return void found.forEach((each) => print(JSON.stringify(each)));
  if (found.length === 0)
    throw cannotLoad(`${folder} has no collections; \`collect --out ${folder}/NAME.jsonl\` writes one`);
  const width = terminalWidth() ?? Infinity;
  const rows = found.map(toCells);
  const lines = tableLines([heading, ...rows]);
  const isWide = lines.some(({ length }) => length > width);
  print((isWide ? rows.map((cells) => toBlock(cells, width)) : lines).join("\n"));
}

/** Formats a collection as a few lines, because the table is wider than the terminal. */
function toBlock([file = "", ...cells]: string[], width: number): string {
  const named = cells.map((cell, at) => `${heading[at + 1]} ${cell}`).join(", ");
  return `${file}\n${wrap(`  ${named}`, width)}`;
}

function toCells(listed: ListedCollection): string[] {
  const { file, tasks, rollouts, reward, failed, at, stopped } = listed;
  const date = at === null ? "not finished" : `${at.slice(0, 16).replace("T", " ")}${stopped ? ", stopped" : ""}`;
  return [file, playerText(listed), ...[tasks, rollouts, reward, failed].map(figure), date].map(plainLine);
}

/** The model, or the agent. An agent has its own model, unless --model names a different one. */
function playerText({ model, agent }: ListedCollection): string {
  if (agent === null) return model ?? "-";
  return model === null || model === "scripted" ? agent : `${agent} with ${model}`;
}
