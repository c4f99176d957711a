// Seeds an episode: turns a task into the event that starts it.
import { replaceState } from "../core/delta.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import { boundary, HoldfastError, invalidOption, messageOf } from "../core/errors.ts";
import type { EventOf } from "../core/event.ts";
import { copyJson, type Json } from "../core/json.ts";
import { newSeed } from "../core/random.ts";
import { check } from "../core/schema.ts";
import { guarded, HandlerCall, withinTime } from "./handler.ts";
import type { Stops } from "./open-log.ts";

/** Checks a task, and returns it as parsed by the environment's schema. */
export async function checkTask(environment: AnyEnvironment, given: unknown): Promise<Json> {
  const raw = copyJson(given ?? {}, "task", "drop");
  const checked = await check(environment.task, raw);
  if (!checked.ok) {
    throw new HoldfastError("invalid_task", `the task is invalid for ${environment.name}: ${checked.message}`);
  }
  // Without a schema, the checked value is the copy itself, so it is not copied again.
  return checked.value === raw ? raw : copyJson(checked.value, "task", "drop");
}

/** Returns the state before the first seed; null if the schema has keys without a default. */
export async function defaultState(environment: AnyEnvironment): Promise<Json> {
  const checked = await check(environment.state, {});
  return checked.ok ? asState(environment, checked.value) : null;
}

export type Seeding = Omit<EventOf<"session.seeded">, "episode">;

/** Runs the environment's seed function. Returns the event that starts the episode. */
export async function seedEvent(
  environment: AnyEnvironment,
  options: { session: string; task: Json; at: number; timeout: number; randomSeed?: number | undefined; stops?: Stops },
): Promise<Seeding> {
  const { session, task, at, timeout, randomSeed: seed = newSeed(), stops } = options;
  if (!Number.isFinite(seed)) throw invalidOption("`randomSeed` must be a number");
  const what = `seed of ${environment.name}`;
  const handler = new HandlerCall({ session, at, timeout, seed, draws: 0, what, stops });
  const { seed: author } = environment;
  const state = await boundary("seed_failed", what, async () => {
    if (!author) return defaultState(environment);
    const { random, now, log } = handler;
    const made = await withinTime(handler, () =>
      author({
        session,
        random,
        now,
        log,
        // Created on demand, like the handler's own signal.
        get signal() {
          return handler.signal;
        },
        task: guarded(task),
      }),
    );
    const checked = await check(environment.state, made);
    if (!checked.ok) throw new Error(`it returned an invalid state: ${checked.message}`);
    return asState(environment, checked.value);
  });
  if (state === null)
    throw new HoldfastError("seed_failed", `${what} is missing, and its state schema has keys without defaults`);
  return { type: "session.seeded", at, task, randomness: { seed, turn: 1 }, delta: replaceState(state) };
}

function asState(environment: AnyEnvironment, value: unknown): Json {
  // A schema may return undefined for optional keys: drop them.
  const state = boundarySync(() => copyJson(value, `the state of ${environment.name}`, "drop"));
  if (typeof state === "object" && state !== null) return state;
  throw new HoldfastError("seed_failed", `the state of ${environment.name} is not an object`);
}

function boundarySync<T>(run: () => T): T {
  try {
    return run();
  } catch (cause) {
    throw new HoldfastError("seed_failed", messageOf(cause), { cause });
  }
}
