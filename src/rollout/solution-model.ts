// solutionModel(): a model that runs a solution. It reads the results so far, makes the next calls, and keeps no state.
import { jsonOrText, type Json } from "../core/json.ts";
import { isFunctionCall, toText, type FunctionCallOutput, type Item, type Model } from "../core/model.ts";
import { pickTask, type TaskRow } from "../core/rollout.ts";
import { scriptedModel } from "../models/scripted.ts";
import type { Call, Solution } from "../testing/environments.ts";

/** Runs a task's solution. The conversation determines the next turn, so the solution continues after a restart. */
export function solutionModel(solution: Solution, row: TaskRow): Model {
  const task = pickTask(row);
  return scriptedModel(({ input }) => {
    const turns = readTurns(input);
    const steps = iterate(solution(task as never));
    let step = steps.next([]);
    for (const results of turns) {
      if (step.done) break;
      step = steps.next(results);
    }
    if (step.done) return typeof step.value === "string" ? step.value : "Done.";
    const calls = Array.isArray(step.value) ? step.value : [step.value];
    return { calls: calls.map(({ tool, input: given }) => ({ name: tool, arguments: given })) };
  });
}

function iterate(calls: object): Iterator<Call | Call[], unknown, Json[]> {
  if (Symbol.iterator in calls) return (calls as Iterable<Call | Call[], unknown, Json[]>)[Symbol.iterator]();
  throw new TypeError("a solution must be a synchronous generator, as in function* solution(task) { … }");
}

/** Returns the results of each turn's calls so far. */
function readTurns(input: Item[]): Json[][] {
  const turns: Json[][] = [];
  let open = false;
  for (const item of input) {
    if (isFunctionCall(item)) {
      if (!open) turns.push([]);
      open = true;
    } else if (item.type === "function_call_output") {
      open = false;
      turns.at(-1)?.push(jsonOrText(toText((item as FunctionCallOutput).output)));
    }
  }
  return turns;
}
