// The models that a server offers to go on with a session: the solution of its environment, a random one, and --model.
import type { ModelFor } from "./play/continue-session.ts";
import { newSeed } from "../core/random.ts";
import type { TaskRow } from "../core/rollout.ts";
import type { Solution } from "../testing/environments.ts";
import { solutionModel } from "./solution-model.ts";
import { modelNamed } from "../models/by-name.ts";

/** Makes the model that continues a session, by the name of the model. Undefined: not for that environment. */
export type OfferedModels = ReadonlyMap<string, (environment: { name: string }) => ModelFor | undefined>;

/** `solutions`: by the name of their environment. `name`: that of a model which was asked for, if one was. */
export async function offeredModels(solutions: ReadonlyMap<string, Solution>, name?: string): Promise<OfferedModels> {
  const models = new Map<string, (environment: { name: string }) => ModelFor | undefined>();
  if (solutions.size > 0) {
    models.set("scripted", ({ name }) => {
      const solution = solutions.get(name);
      return solution && ((task) => solutionModel(solution, Object(task) as TaskRow));
    });
  }
  // Another seed each time: it is asked again in the hope of something else.
  models.set("random", () => () => modelNamed("random", newSeed()));
  if (name !== undefined && name !== "scripted") {
    const model = await modelNamed(name);
    if (!models.has(name)) models.set(name, () => () => model);
  }
  return models;
}
