// createSessions(): the engine. Wires loading, turns, calls, verdicts and limits into the verbs that users call.
import { replaceState } from "../core/delta.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import { HoldfastError, isHoldfastError } from "../core/errors.ts";
import { seedKey, type EndReason, type Event, type EventOf, type Labels } from "../core/event.ts";
import { copyJson, equalJson, type Json } from "../core/json.ts";
import { newSeed } from "../core/random.ts";
import { isInForce, type Session } from "../core/session.ts";
import type { Seeded, SeedOptions, SessionInfo, Sessions } from "../core/sessions.ts";
import type { Store } from "../core/store.ts";
import { isTimeout, timeoutRange } from "../core/timeout.ts";
import type { CacheLimits } from "./cache.ts";
import { createCalls } from "./call.ts";
import { newId } from "./id.ts";
import { createLimits, type Limits } from "./limits.ts";
import { exclusive } from "./exclusive.ts";
import { assertCallId, undone } from "./find-repeat.ts";
import { createLogCache, createLogs, headingOf, timeNow } from "./log.ts";
import type { OpenLog } from "./open-log.ts";
import { replay } from "./replay.ts";
import { checkTask, defaultState, seedEvent } from "./seed.ts";
import { createVerify } from "./verify.ts";

export interface SessionsOptions<E extends AnyEnvironment> {
  environment: E;
  /** Where the logs live. Who opened it closes it. */
  store: Store;
  /** Milliseconds that a tool, a seed or a verify may take. Default 60,000. */
  timeout?: number;
  /** When sessions end by themselves. By default never. */
  limits?: Limits;
  /** How much is kept in the process between calls. */
  cache?: CacheLimits;
  /** Whether the log of a session that has ended stays readable. Default: if the store is persistent. */
  keepEnded?: boolean;
}

/**
 * The sessions of one environment in one store. Any number of processes may have one on the same store.
 *
 * @example
 * const sessions = createSessions({ environment: counter, store: memoryStore() });
 * const { session } = await sessions.open({ task: { start: 3, goal: 5 } });
 * await sessions.call(session, "add", { by: 2 });
 * const { reward } = await sessions.verify(session);
 */
export function createSessions<E extends AnyEnvironment>(options: SessionsOptions<E>): Sessions<E> {
  const { environment, store, timeout = 60_000, keepEnded = store.persistent } = options;
  if (!isTimeout(timeout)) throw new HoldfastError("invalid_option", `the timeout must be ${timeoutRange}`);
  const logs = createLogs(store, environment.name, createLogCache(options.cache));
  const limits = createLimits({ ...options.limits, store, environment: environment.name, end });
  const call = createCalls({ environment, logs, timeout, newId, assertOpen, assertWithinLimits });
  const { verify, rewards } = createVerify({ environment, logs, timeout });
  let underWay = 0;
  let stopping: Promise<void> | undefined;
  let allDone: (() => void) | undefined;

  // Unreferenced: the clock of an engine that nobody stopped keeps no process alive.
  const clock = limits.interval && setInterval(() => void expireInTime(), limits.interval).unref();
  let isExpiring = false;

  /** A store may be slower than the clock. */
  async function expireInTime(): Promise<void> {
    if (isExpiring) return;
    isExpiring = true;
    await sessions.expire().catch(() => 0);
    isExpiring = false;
  }

  /** Counts what is under way, so that `stop` can wait for it. */
  async function track<T>(run: () => Promise<T>): Promise<T> {
    begin();
    try {
      return await run();
    } finally {
      finish();
    }
  }

  function begin(): void {
    assertRunning();
    underWay++;
  }

  function finish(): void {
    if (--underWay === 0) allDone?.();
  }

  function assertRunning(): void {
    if (stopping) throw new HoldfastError("engine_stopped", "the engine was stopped");
  }

  function use<T>(id: string, run: (log: OpenLog) => Promise<T>): Promise<T> {
    return track(() => logs.use(id, run));
  }

  /** As `use`, for what a session must be open for. */
  async function useOpen<T>(id: string, run: (log: OpenLog) => Promise<T>): Promise<T> {
    begin();
    try {
      return await logs.use(id, run);
    } catch (thrown) {
      // Over its time, it ends now rather than at the next tick of the clock.
      const reason = isHoldfastError(thrown) && thrown.code === "session_closed" && thrown.detail["reason"];
      if (reason === "idle" || reason === "age") await end(id, reason).catch(() => false);
      throw thrown;
    } finally {
      finish();
    }
  }

  function assertOpen(log: OpenLog): void {
    const { ended } = log.session;
    if (ended) throw closedError(log.id, ended);
    if (log.ending) throw log.ending;
  }

  function assertWithinLimits(log: OpenLog): void {
    const over = limits.over(log.session);
    if (over) throw closedError(log.id, over);
  }

  async function end(id: string, reason: EndReason): Promise<boolean> {
    let ended = false;
    const work = async (log: OpenLog): Promise<void> => {
      if (reason === "idle" || reason === "capacity") {
        // What is being called is neither idle nor the one to make room.
        if (log.uses > 1) return;
      } else {
        log.ending = closedError(id, reason);
        for (const stop of log.running ?? []) stop(log.ending);
      }
      await exclusive(log, undefined, async () => {
        await logs.refresh(log);
        const always = (): void => undefined;
        const result = await logs.commit(log, always, (session) => {
          if (session.ended || (reason === "idle" && limits.over(session) !== "idle")) return undefined;
          return { type: "session.closed", at: timeNow(session), reason };
        });
        ended = result === "ok";
      }).finally(() => (log.ending = undefined));
      if (!log.session.ended) return;
      logs.forget(log);
      if (!keepEnded) await store.delete(id);
    };
    try {
      await logs.use(id, work);
    } catch (thrown) {
      if (!isHoldfastError(thrown) || thrown.code !== "session_not_found") throw thrown;
    }
    return ended;
  }

  /** Reads the session as it is in the store now. */
  function read<T>(id: string, look: (session: Session) => T): Promise<T> {
    return use(id, async (log) => {
      // A running call's draft reads this process's fold, which must not move under it: fold another one.
      if (log.busy) return look((await logs.load(id)).session);
      return exclusive(log, undefined, async () => {
        await logs.refresh(log);
        return look(log.session);
      });
    });
  }

  async function create(events: (session: string, at: number) => Promise<Event[]>, id = newId()): Promise<SessionInfo> {
    const session = await logs.create(id, await events(id, Date.now()));
    const info = infoOf(id, session);
    await limits.opened(id);
    return info;
  }

  async function seed(log: OpenLog, given: unknown, { random, call, labels }: SeedOptions): Promise<Seeded> {
    assertCallId(call);
    const open = (): void => {
      assertOpen(log);
      assertWithinLimits(log);
      const { episode, verified } = log.session;
      if (environment.reseed === "reject" && episode > verified) {
        throw new HoldfastError("episode_in_flight", `episode ${episode} of session ${log.id} was not verified yet`);
      }
    };
    if (environment.reseed === "reject" && call === undefined) {
      // Before the task is looked at: what is wrong with it is nothing for a model that tries to seed itself.
      await exclusive(log, undefined, async () => {
        await logs.refresh(log);
        open();
      });
    }
    const task = await checkTask(environment, given);
    const repeated = async (): Promise<Seeded | undefined> => {
      const event = call === undefined ? undefined : await logs.find(log.id, seedKey(call));
      if (event?.type !== "session.seeded") return undefined;
      const { version, episode } = event;
      if (!equalJson(event.task, task)) {
        throw new HoldfastError("call_conflict", `the call id ${call} was used before, to seed with another task`);
      }
      if (version > log.session.version) await logs.refresh(log);
      if (!isInForce(log.session, version)) throw undone(call as string);
      return { session: log.id, version, episode, repeated: true };
    };
    return exclusive(log, undefined, async () => {
      if (call !== undefined) await logs.refresh(log);
      const before = await repeated();
      if (before) return before;
      const result = await logs.commit(log, open, async (session) => {
        const began = timeNow(session);
        const seeding = await seedEvent(environment, { session: log.id, task, at: began, timeout, random, stops: log });
        const event: EventOf<"session.seeded"> = { ...seeding, episode: session.episodes + 1 };
        event.at = timeNow(session);
        if (event.at !== began) event.began = began;
        if (call !== undefined) event.call = call;
        if (labels) event.labels = copyJson(labels, "labels", "drop") as Labels;
        return event;
      });
      const { version, episode } = log.session;
      if (result === "ok") return { session: log.id, version, episode, repeated: false };
      const recorded = await repeated();
      if (recorded) return recorded;
      // Says so if the session was deleted meanwhile. Otherwise the store went over to a copy of itself that has not got it.
      await logs.refresh(log);
      throw new HoldfastError("store_failed", `the store has lost a seed of session ${log.id}; send it again`);
    });
  }

  const sessions: Sessions<E> = {
    environment,
    cache: logs.counts,
    newSession: newId,
    open: ({ session: id, task, random = newSeed(), labels: given = {} } = {}) =>
      track(() =>
        create(async (session, at) => {
          const labels = copyJson(given, "labels", "drop") as Labels;
          if (!Number.isFinite(random)) throw new HoldfastError("invalid_option", "`random` must be a number");
          const opened: Event = {
            type: "session.opened",
            at,
            environment: environment.name,
            labels,
            randomness: { seed: random, turn: 0 },
          };
          const state = await defaultState(environment);
          const first = state === null ? opened : { ...opened, delta: replaceState(state) };
          if (task === undefined) return [first];
          const checked = await checkTask(environment, task);
          const seeding = await seedEvent(environment, { session, task: checked, at, timeout, random });
          return [first, { ...seeding, episode: 1, labels }];
        }, id),
      ),
    seed: (id, task, seedOptions = {}) => useOpen(id, (log) => seed(log, task, seedOptions)),
    call: (id, tool, ...rest) => useOpen(id, (log) => call(log, tool, rest[0], rest[1] ?? {})) as Promise<never>,
    verify: (id, verifyOptions = {}) => use(id, (log) => verify(log, verifyOptions)),
    rewards: (id, { signal } = {}) => use(id, (log) => rewards(log, signal)),
    state: (id, version) =>
      version === undefined
        ? read(id, copyState as (session: Session) => never)
        : track(async () => copyState((await logs.load(id, version)).session) as never),
    info: (id) => read(id, (session) => infoOf(id, session)),
    async *events(id, { after = 0 } = {}) {
      if (!Number.isInteger(after) || after < 0) {
        throw new HoldfastError("invalid_option", "`after` must be a version, or 0");
      }
      await read(id, () => undefined);
      yield* logs.events(id, after);
    },
    fork: (id, { version, session: child } = {}) =>
      track(() =>
        create(async (_, at) => {
          const { session } = version === undefined ? await logs.load(id) : await logs.load(id, version);
          const { task, episode, randomness, labels, state } = session;
          const opened: Event = {
            type: "session.opened",
            at,
            environment: environment.name,
            randomness,
            labels,
            parent: { session: id, version: session.version, episode, task },
          };
          return [state === null ? opened : { ...opened, delta: replaceState(state) }];
        }, child),
      ),
    rewind: (id, to) =>
      useOpen(id, async (log) => {
        const { session: then } = await logs.load(id, to);
        const open = (): void => {
          assertOpen(log);
          assertWithinLimits(log);
        };
        await exclusive(log, undefined, () =>
          logs.commit(log, open, (session) => {
            const { episode, task, randomness, labels, state } = then;
            const delta = replaceState(copyJson(state, "state"));
            return { type: "session.rewound", at: timeNow(session), to, episode, task, randomness, labels, delta };
          }),
        );
        return infoOf(id, log.session);
      }),
    replay: (id) => use(id, () => replay({ environment, session: id, timeout, events: () => logs.events(id) })),
    async *list(filter = {}) {
      assertRunning();
      yield* store.list({ ...filter, environment: environment.name });
    },
    close: (id) => track(() => end(id, "closed")),
    expire: () => track(limits.expire),
    stop() {
      stopping ??= new Promise((resolve) => {
        clearInterval(clock);
        allDone = resolve;
        if (underWay === 0) resolve();
      });
      return stopping;
    },
  };
  return sessions;
}

function copyState({ state }: Session): Json {
  return copyJson(state, "state");
}

function infoOf(id: string, session: Session): SessionInfo {
  const { version, touched, episode, task, labels } = session;
  const about = { task: copyJson(task, "task"), labels: copyJson(labels, "labels") as Labels };
  return { session: id, version, touched, episode, ...about, ...headingOf(session) };
}

function closedError(id: string, reason: EndReason): HoldfastError {
  const how =
    reason === "closed" ? "was closed" : `was ended by its limit of ${reason === "idle" ? "idle time" : reason}`;
  return new HoldfastError("session_closed", `session ${id} ${how}`, { detail: { reason } });
}
