// taskFor(): finds the task that a verify of the gym protocol judges by: the task that seeded the episode.
import type { AnyEnvironment } from "../../core/environment.ts";
import { HoldfastError } from "../../core/errors.ts";
import { equalJson, isObject, type Json } from "../../core/json.ts";
import { pickTask } from "../../core/rollout.ts";
import { check } from "../../core/schema.ts";
import { isWhole, type Row } from "./row.ts";

/**
 * Returns the task to verify against: the seeded task with the row's fields, or undefined for the seeded task itself.
 * Refuses a whole row for another task, because the model may have seeded the episode itself or made up the row.
 */
export async function taskFor(environment: AnyEnvironment, seeded: unknown, asked: Row): Promise<unknown> {
  const { responses_create_params: _, ...fields } = asked;
  const merged = isObject(seeded) ? { ...seeded, ...fields } : fields;
  const checked = isWhole(asked) ? await check(environment.task, merged) : undefined;
  // The message does not show the difference. Otherwise, a model could make up rows to learn the seeded task.
  if (checked && !(checked.ok && isSameTask(seeded, checked.value))) {
    throw new HoldfastError("verify_failed", "the row does not match the task that this episode was seeded with");
  }
  return environment.task === undefined || Object.keys(fields).length === 0 ? undefined : merged;
}

/** Returns whether a whole row has the same task as the seed. */
function isSameTask(seeded: unknown, asked: unknown): boolean {
  if (!isObject(seeded) || !isObject(asked)) return equalJson(seeded as Json, asked as Json);
  const [before, now] = [pickTask(seeded as Row), pickTask(asked as Row)];
  return Object.keys(now).every((name) => equalJson(before[name] ?? null, now[name] ?? null));
}
