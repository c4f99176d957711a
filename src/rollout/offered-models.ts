// offeredModels(): the models that may continue a session on a server: the solution, a random model, and --model.
import type { ModelFor } from "./play/continue-session.ts";
import { newSeed } from "../core/random.ts";
import type { TaskRow } from "../core/rollout.ts";
import type { Solution } from "../testing/environments.ts";
import { solutionModel } from "./solution-model.ts";
import { modelNamed } from "../models/by-name.ts";

/** For each name, a function that returns the model for an environment; undefined if the environment cannot use it. */
export type OfferedModels = ReadonlyMap<string, (environment: { name: string }) => ModelFor | undefined>;

/** `solutions`: the solutions by environment name. `name`: the requested model, if any. */
export async function offeredModels(solutions: ReadonlyMap<string, Solution>, name?: string): Promise<OfferedModels> {
  const models = new Map<string, (environment: { name: string }) => ModelFor | undefined>();
  if (solutions.size > 0) {
    models.set("scripted", ({ name }) => {
      const solution = solutions.get(name);
      return solution && ((task) => solutionModel(solution, Object(task) as TaskRow));
    });
  }
  // Uses a new seed each time, so that a repeated request runs differently.
  models.set("random", () => () => modelNamed("random", newSeed()));
  if (name !== undefined && name !== "scripted") {
    const model = await modelNamed(name);
    if (!models.has(name)) models.set(name, () => () => model);
  }
  return models;
}
