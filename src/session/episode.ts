// Episodes: an environment's sessions. Connects seeds, calls, verdicts and replays to the engine.
import { replaceState } from "../core/delta.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { EventOf, Labels } from "../core/event.ts";
import { seedKey } from "../core/event-key.ts";
import { copyJson, equalJson, type Json } from "../core/json.ts";
import { newSeed } from "../core/random.ts";
import { isInForce, type Session } from "../core/session.ts";
import type { Answer, Episodes, ForkOptions, OpenOptions, Seeded, SeedOptions } from "../core/sessions.ts";
import { refuseUnknown } from "../core/suggest.ts";
import { isTimeout, timeoutRange } from "../core/timeout.ts";
import { createAskModel } from "./ask-model.ts";
import { createCalls } from "./call.ts";
import { createEngine, type EngineOptions } from "./engine.ts";
import { exclusive } from "./exclusive.ts";
import { assertCallId, undone } from "./find-repeat.ts";
import { newId } from "./id.ts";
import { createLogCache, createLogs, timeNow } from "./log.ts";
import type { OpenLog } from "./open-log.ts";
import { replay } from "./replay.ts";
import { checkTask, defaultState, seedEvent } from "./seed.ts";
import { thrownIn } from "./thrown.ts";
import { createVerify } from "./verify.ts";

const ofOpen: Record<keyof OpenOptions<unknown>, true> = { session: true, labels: true, task: true, randomSeed: true };
const ofSeed: Record<keyof SeedOptions, true> = { randomSeed: true, call: true, labels: true, first: true };

export interface EpisodeOptions<E extends AnyEnvironment> extends EngineOptions {
  environment: E;
}

export function createEpisodes<E extends AnyEnvironment>(options: EpisodeOptions<E>): Episodes<E> {
  const { environment, store, timeout = 60_000 } = options;
  if (!isTimeout(timeout)) throw invalidOption(`the timeout must be ${timeoutRange}`);
  const { onError } = options;
  const logs = createLogs(store, environment.name, { cache: createLogCache(options.cache) });
  const engine = createEngine<never, ForkOptions>(
    {
      environment: environment.name,
      logs,
      readState: ({ state }) => copyJson(state, "state") as never,
      fork,
      restore: (id, events) => logs.create(id, events),
    },
    options,
  );
  const { use, useOpen, track, create, assertOpen, assertWithinLimits } = engine;
  const call = createCalls({ environment, logs, timeout, newId, assertOpen, assertWithinLimits, onError });
  const { askModel, cancelRefused } = createAskModel({ logs, assertOpen, assertWithinLimits });
  const { verify, rewards } = createVerify({ environment, logs, timeout });

  async function open(session: string, at: number, given: OpenOptions<unknown>): Promise<Session> {
    refuseUnknown("open", given, ofOpen, invalidOption);
    const { task, randomSeed = newSeed() } = given;
    const labels = copyJson(given.labels ?? {}, "labels", "drop") as Labels;
    if (!Number.isFinite(randomSeed)) throw invalidOption("`randomSeed` must be a number");
    const opened: EventOf<"session.opened"> = {
      type: "session.opened",
      at,
      environment: environment.name,
      labels,
      randomness: { seed: randomSeed, turn: 0 },
    };
    const state = await defaultState(environment);
    if (state !== null) opened.delta = replaceState(state);
    if (task === undefined) return logs.create(session, [opened]);
    const checked = await checkTask(environment, task);
    const seeding = await seedEvent(environment, { session, task: checked, at, timeout, randomSeed });
    return logs.create(session, [opened, { ...seeding, episode: 1, labels }]);
  }

  async function fork(child: string, parent: string, at: number, options: ForkOptions): Promise<Session> {
    refuseUnknown("fork", options, { version: true, session: true }, invalidOption);
    const { session } = await logs.load(parent, options.version);
    const { task, episode, randomness, labels, state } = session;
    const opened: EventOf<"session.opened"> = {
      type: "session.opened",
      at,
      environment: environment.name,
      randomness,
      labels,
      parent: { session: parent, version: session.version, episode, task },
    };
    if (state !== null) opened.delta = replaceState(state);
    return logs.create(child, [opened]);
  }

  async function seed(log: OpenLog, given: unknown, options: SeedOptions): Promise<Seeded> {
    refuseUnknown("seed", options, ofSeed, invalidOption);
    const { randomSeed, call, labels, first = false } = options;
    assertCallId(call);
    const open = (): void => {
      assertOpen(log);
      assertWithinLimits(log);
      const { episode, verified } = log.session;
      if (first && episode > 0) {
        const message = `session ${log.id} has already been seeded; open a new session for each episode`;
        throw new HoldfastError("episode_in_flight", message);
      }
      if (environment.reseed === "reject" && episode > verified) {
        throw new HoldfastError(
          "episode_in_flight",
          `episode ${episode} of session ${log.id} is not verified yet; verify it, or open a new session`,
        );
      }
    };
    if ((first || environment.reseed === "reject") && call === undefined) {
      // Refuses before the task is checked. Otherwise, a model that seeds could learn whether its task is valid.
      await exclusive(log, undefined, async () => {
        await logs.refresh(log);
        open();
      });
    }
    const task = await checkTask(environment, given);
    return exclusive(log, undefined, async () => {
      if (call !== undefined) await logs.refresh(log);
      const before = await repeatedSeed(log, call, task);
      if (before) return before;
      const result = await logs.commit(log, open, async (session) => {
        const began = timeNow(session);
        const about = { session: log.id, task, at: began, timeout, randomSeed, stops: log };
        const seeding = await seedEvent(environment, about);
        const event: EventOf<"session.seeded"> = { ...seeding, episode: session.episodes + 1 };
        event.at = timeNow(session);
        if (event.at !== began) event.began = began;
        if (call !== undefined) event.call = call;
        if (labels) event.labels = copyJson(labels, "labels", "drop") as Labels;
        return event;
      });
      const { version, episode } = log.session;
      if (result === "ok") return { session: log.id, version, episode, repeated: false };
      const recorded = await repeatedSeed(log, call, task);
      if (recorded) return recorded;
      // The refresh throws if the session was deleted in the meantime. Otherwise, the store failed over to a copy that
      // lacks the seed.
      await logs.refresh(log);
      throw new HoldfastError(
        "store_failed",
        `the store lost the seed of session ${log.id}; send the seed request again`,
      );
    });
  }

  /** Returns the recorded answer for a seed with this id, if there is one. */
  async function repeatedSeed(log: OpenLog, call: string | undefined, task: Json): Promise<Seeded | undefined> {
    const event = call === undefined ? undefined : await logs.find(log.id, seedKey(call));
    if (event?.type !== "session.seeded") return undefined;
    const { version, episode } = event;
    if (!equalJson(event.task, task)) {
      throw new HoldfastError("call_conflict", `the call id ${call} was already used for a seed with a different task`);
    }
    if (version > log.session.version) await logs.refresh(log);
    if (!isInForce(log.session, version)) throw undone(call as string);
    return { session: log.id, version, episode, repeated: true };
  }

  /** Runs work, and passes errors from the author's code to `onError`. */
  async function reporting<T extends object>(id: string, work: () => Promise<T>): Promise<T> {
    if (!onError) return work();
    try {
      const result: T & Partial<Answer> = await work();
      if (result.thrown && !result.repeated) onError(result.thrown, id);
      return result;
    } catch (thrown) {
      const error = thrownIn(thrown);
      if (error) onError(error, id);
      throw thrown;
    }
  }

  return {
    ...engine.verbs,
    environment,
    open: (given = {}) => track(() => create((id, at) => reporting(id, () => open(id, at, given)), given.session)),
    seed: (id, task, seedOptions = {}) =>
      useOpen(id, (log) => reporting(id, () => seed(log, task, seedOptions)).finally(() => cancelRefused(log))),
    call: (id, tool, ...rest) => useOpen(id, (log) => call(log, tool, rest[0], rest[1] ?? {})) as Promise<never>,
    askModel: (id, request, asked) => useOpen(id, (log) => askModel(log, request, asked)),
    verify: (id, verifyOptions = {}) =>
      use(id, (log) => reporting(id, () => verify(log, verifyOptions)).finally(() => cancelRefused(log))),
    rewards: (id, { signal } = {}) => use(id, (log) => rewards(log, signal)),
    replay: (id) => use(id, () => replay({ environment, session: id, timeout, events: () => logs.events(id) })),
  };
}
