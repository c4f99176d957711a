// Which verify counts for an episode: the first question about it, with the task that it was seeded with.
import type { AnyEnvironment } from "../../core/environment.ts";
import { showJson } from "../../core/ellipsis.ts";
import { HoldfastError } from "../../core/errors.ts";
import { equalJson, isObject, type Json } from "../../core/json.ts";
import { pickTask } from "../../core/rollout.ts";
import { check } from "../../core/schema.ts";
import type { Sessions, Verification } from "../../core/sessions.ts";
import { isWhole, type Row } from "./row.ts";

/**
 * Returns the task to judge by: the seeded one with the fields of the row; undefined for the seeded one. Refuses a whole
 * row of another task: the model may have seeded the episode itself.
 */
export async function taskFor(environment: AnyEnvironment, seeded: unknown, asked: Row): Promise<unknown> {
  const { responses_create_params: _, ...fields } = asked;
  const merged = isObject(seeded) ? { ...seeded, ...fields } : fields;
  const checked = isWhole(asked) ? await check(environment.task, merged) : undefined;
  const difference = checked?.ok ? taskDifference(seeded, checked.value) : undefined;
  if (difference !== undefined) {
    const message = `the row is not the task that the episode was seeded with: ${difference}`;
    throw new HoldfastError("verify_failed", message);
  }
  return environment.task === undefined || Object.keys(fields).length === 0 ? undefined : merged;
}

/** Refuses a second question about an episode: the model may have asked the first, to learn its reward. */
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
    if (isSame && event.task === undefined) return;
    const message = `episode ${episode} of session ${session} was verified before, with another question`;
    throw new HoldfastError("verify_failed", message);
  }
}

/** Returns the first difference between the seeded task and the one that a whole row asks to judge by, in words. */
function taskDifference(seeded: unknown, asked: unknown): string | undefined {
  if (!isObject(seeded) || !isObject(asked)) return equalJson(seeded as Json, asked as Json) ? undefined : "the task";
  const [before, now] = [pickTask(seeded as Row), pickTask(asked as Row)];
  const differs = (name: string): boolean => !equalJson(before[name] ?? null, now[name] ?? null);
  const name = Object.keys(now).find(differs);
  return name && `\`${name}\` was ${showJson(before[name] ?? null, 60)} and is ${showJson(now[name] ?? null, 60)}`;
}
