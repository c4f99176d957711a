// Which verify counts for an episode: the first question about it, with the task that seeded it.
import type { AnyEnvironment } from "../../core/environment.ts";
import { HoldfastError } from "../../core/errors.ts";
import { equalJson, isObject, type Json } from "../../core/json.ts";
import { pickTask } from "../../core/rollout.ts";
import { check } from "../../core/schema.ts";
import type { Sessions, Verification } from "../../core/sessions.ts";
import { isWhole, type Row } from "./row.ts";

/**
 * Returns the task to judge by: the seeded task with the row's fields, or undefined for the seeded task itself. Refuses
 * a whole row for a different task, because the model may have seeded the episode itself or made up the row.
 */
export async function taskFor(environment: AnyEnvironment, seeded: unknown, asked: Row): Promise<unknown> {
  const { responses_create_params: _, ...fields } = asked;
  const merged = isObject(seeded) ? { ...seeded, ...fields } : fields;
  const checked = isWhole(asked) ? await check(environment.task, merged) : undefined;
  // Does not say what differs, because a model may have made up the row to learn the seeded task.
  if (checked && !(checked.ok && isSameTask(seeded, checked.value))) {
    throw new HoldfastError("verify_failed", "the row is not the task that this episode was seeded with");
  }
  return environment.task === undefined || Object.keys(fields).length === 0 ? undefined : merged;
}

/**
 * Refuses a second question about an episode. The model may have asked the first one, to learn its reward or its task.
 */
export async function assertFirst(
  sessions: Sessions,
  { session, episode, version }: Verification,
  response: Json | undefined,
): Promise<void> {
  let current = 0;
  for await (const event of sessions.events(session)) {
    if (event.type === "session.seeded") current = event.episode;
    if (event.type !== "session.verified" || (event.episode ?? current) !== episode) continue;
    const isSame = event.judged === version && equalJson(event.response ?? null, response ?? null);
    if (isSame && event.task === undefined && !event.refused) return;
    const message = `episode ${episode} of session ${session} was verified before, with another question`;
    throw new HoldfastError("verify_failed", message);
  }
}

/** Returns whether a whole row asks to be judged by the seeded task. */
function isSameTask(seeded: unknown, asked: unknown): boolean {
  if (!isObject(seeded) || !isObject(asked)) return equalJson(seeded as Json, asked as Json);
  const [before, now] = [pickTask(seeded as Row), pickTask(asked as Row)];
  return Object.keys(now).every((name) => equalJson(before[name] ?? null, now[name] ?? null));
}
