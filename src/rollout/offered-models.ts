// offeredModels(): the models that a server offers to continue a session: the environment's solution, a random one, and
// --model.
import type { ModelFor } from "./play/continue-session.ts";
import { newSeed } from "../core/random.ts";
import type { TaskRow } from "../core/rollout.ts";
import type { Solution } from "../testing/environments.ts";
import { solutionModel } from "./solution-model.ts";
import { modelNamed } from "../models/by-name.ts";

/** By model name: creates the model for an environment, or returns undefined if it cannot play there. */
export type OfferedModels = ReadonlyMap<string, (environment: { name: string }) => ModelFor | undefined>;

/** `solutions`: by environment name. `name`: the requested model, if any. */
export async function offeredModels(solutions: ReadonlyMap<string, Solution>, name?: string): Promise<OfferedModels> {
  const models = new Map<string, (environment: { name: string }) => ModelFor | undefined>();
  if (solutions.size > 0) {
    models.set("scripted", ({ name }) => {
      const solution = solutions.get(name);
      return solution && ((task) => solutionModel(solution, Object(task) as TaskRow));
    });
  }
  // A new seed each time, so that a repeated request plays differently.
  models.set("random", () => () => modelNamed("random", newSeed()));
  if (name !== undefined && name !== "scripted") {
    const model = await modelNamed(name);
    if (!models.has(name)) models.set(name, () => () => model);
  }
  return models;
}
