// Prints a table of the collections in a folder.
import { cannotLoad } from "../../core/errors.ts";
import { listCollections, type ListedCollection } from "../../rollout/list-collections.ts";
import { figure, tableLines } from "../metrics/table.ts";
import { plainLine, print } from "../plain.ts";
import { note } from "../rollout-source.ts";

const heading = ["collection", "played by", "tasks", "rollouts", "mean reward", "failed", "date"];

export function listRuns(folder: string, json: boolean): void {
  const found = listCollections(folder, note);
  if (json) return void found.forEach((each) => print(JSON.stringify(each)));
  if (found.length === 0)
    throw cannotLoad(`${folder} has no collections; \`collect --out ${folder}/NAME.jsonl\` writes one`);
  print(tableLines([heading, ...found.map(toCells)]).join("\n"));
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
