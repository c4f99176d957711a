// createEngine(): the operations that all sessions share, whether they belong to an environment or an agent. It counts
// running work, and ends sessions when they are closed or reach a limit.
import { replaceState } from "../core/delta.ts";
import { resting } from "../core/conversation.ts";
import { HoldfastError, invalidOption, isHoldfastError } from "../core/errors.ts";
import { isEventOf, type EndReason, type Event, type Labels, type Thrown } from "../core/event.ts";
import { copyJson, equalJson } from "../core/json.ts";
import { isInForce, isSessionId, type Session } from "../core/session.ts";
import type { ForkOptions, ListFilter, SavedSession, SessionInfo, SessionsBase } from "../core/sessions.ts";
import type { Store } from "../core/store.ts";
import { refuseUnknown } from "../core/suggest.ts";
import type { CacheLimits } from "./cache.ts";
import { exclusive } from "./exclusive.ts";
import { newId } from "./id.ts";
import { createLimits, type Limits } from "./limits.ts";
import { headingOf, timeNow, type Logs } from "./log.ts";
import type { OpenLog } from "./open-log.ts";
import { faultInItems } from "../core/model.ts";

export interface EngineOptions {
  /** The store for the logs. `stop` does not close it. */
  store: Store;
  /** Milliseconds that a tool, a seed or a verify may take. Default 60,000. */
  timeout?: number;
  /** Limits that end sessions. By default none. */
  limits?: Limits;
  /** Limits on the memory kept between calls. Default: 10,000 sessions and 256 MB. */
  cache?: CacheLimits;
  /** Whether an ended session's log stays readable. Default: yes if the store is persistent. */
  keepEnded?: boolean;
  /** Called for every error that a tool, a seed, a verify or a callback throws, to log it. */
  onError?: (error: Thrown, session: string) => void;
}

/** Number of sessions that a list by user or label reads in one turn of the event loop. */
const listedInARow = 16;

/** The differences between an environment's sessions and an agent's. */
export interface Kind<State, Fork extends ForkOptions> {
  /** The environment name under which a store lists the sessions. */
  environment: string;
  logs: Logs;
  /** Returns a copy of the state. */
  readState(session: Session): State | Promise<State>;
  fork(child: string, parent: string, at: number, options: Fork): Promise<Session>;
  restore(id: string, events: Event[], saved: SavedSession): Promise<Session>;
  /** For conversations only: reads their info, saves them, and refuses work during a turn. */
  conversation?: {
    describeConversation(session: Session): Partial<SessionInfo>;
    readSaved(session: Session): Promise<Partial<SavedSession>>;
    /** Returns a refusal while another process runs a turn. */
    refusal(log: OpenLog): HoldfastError | undefined;
  };
}

type SharedVerbs<State, Fork> = Omit<SessionsBase<State>, "open" | "fork" | "replay"> & {
  fork(session: string, options?: Fork): Promise<SessionInfo>;
};

const ofList: Record<keyof Omit<ListFilter, "user" | "labels">, true> = {
  open: true,
  openedBefore: true,
  idleBefore: true,
  after: true,
};

export function createEngine<State, Fork extends ForkOptions>(kind: Kind<State, Fork>, options: EngineOptions) {
  const { environment, logs, readState } = kind;
  const { store, keepEnded = store.persistent } = options;
  const limits = createLimits({ ...options.limits, store, environment, end });
  let running = 0;
  let stopping: Promise<void> | undefined;
  let allDone: (() => void) | undefined;
  /** Refuses all work. Set when `stop` no longer waits for running work. */
  let stopped: HoldfastError | undefined;

  // The timer is unreferenced, so that an engine that was not stopped does not keep the process alive.
  const clock = limits.interval && setInterval(() => void expireInTime(), limits.interval).unref();
  let isExpiring = false;

  /** Skips a tick while the previous tick is still running, because a store may be slower than the clock. */
  async function expireInTime(): Promise<void> {
    if (isExpiring) return;
    isExpiring = true;
    await track(limits.expire).catch(() => 0);
    isExpiring = false;
  }

  /** Counts running work, so that `stop` can wait for it. */
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
    running++;
  }

  function finish(): void {
    if (--running === 0) allDone?.();
  }

  /** Throws if the engine is stopping. Called before new work, and by work that waits for another process. */
  function assertRunning(): void {
    if (stopping) throw new HoldfastError("engine_stopped", "this process has stopped its sessions");
  }

  /** Runs work on a session. */
  function use<T>(id: string, run: (log: OpenLog) => Promise<T>): Promise<T> {
    return track(() => logs.use(id, run));
  }

  /** Runs work on a session that must be open. */
  async function useOpen<T>(id: string, run: (log: OpenLog) => Promise<T>): Promise<T> {
    begin();
    try {
      return await logs.use(id, run);
    } catch (thrown) {
      // A session over its limit ends now, without waiting for the next clock tick.
      const reason = isHoldfastError(thrown) && thrown.code === "session_closed" && thrown.detail["reason"];
      if (reason === "idle" || reason === "age") await end(id, reason).catch(() => false);
      throw thrown;
    } finally {
      finish();
    }
  }

  /** Throws if the session has ended or is ending. */
  function assertOpen(log: OpenLog): void {
    const { ended } = log.session;
    if (ended) throw closedError(log.id, ended);
    const refusal = log.ending ?? stopped;
    if (refusal) throw refusal;
  }

  /** Throws if the session is over a limit. Checked when work starts, not while it runs. */
  function assertWithinLimits(log: OpenLog): void {
    const over = limits.over(log);
    if (over) throw closedError(log.id, over);
  }

  async function end(id: string, reason: EndReason): Promise<boolean> {
    let ended = false;
    const work = async (log: OpenLog): Promise<void> => {
      if (reason === "idle" || reason === "capacity") {
        // A session in use is not idle. It is not ended to make room for other sessions either.
        if (log.uses > 1) return;
      } else {
        log.ending = closedError(id, reason);
        for (const stop of log.running ?? []) stop(log.ending);
      }
      await exclusive(log, undefined, async () => {
        await logs.refresh(log);
        const always = (): void => undefined;
        const result = await logs.commit(log, always, (session) => {
          if (session.ended || (reason === "idle" && limits.over(log) !== "idle")) return undefined;
          const refusal = kind.conversation?.refusal(log);
          if (refusal && reason === "closed") throw refusal;
          // During a turn, the session is not ended. The limit ends it after the turn.
          if (refusal) return undefined;
          return { type: "session.closed", at: timeNow(session), reason };
        });
        ended = result === "ok";
      }).finally(() => (log.ending = undefined));
      if (!log.session.ended) return;
      logs.forget(log);
      if (!keepEnded) await store.delete(id);
    };
    await logs.useIfThere(id, work);
    return ended;
  }

  /** Reads the current session from the store. */
  function read<T>(id: string, look: (session: Session) => T | Promise<T>): Promise<T> {
    return use(id, (log) => readNow(log, look));
  }

  async function readNow<T>(log: OpenLog, look: (session: Session) => T | Promise<T>): Promise<T> {
    // A running call reads the cached session, which must not change until the call ends. So this loads a separate
    // copy.
    if (log.busy) return look((await logs.load(log.id)).session);
    return exclusive(log, undefined, async () => {
      await logs.refresh(log);
      return look(log.session);
    });
  }

  /** Creates a session, and ends other sessions if there are too many. */
  async function create(make: (id: string, at: number) => Promise<Session>, id = newId()): Promise<SessionInfo> {
    if (!isSessionId(id)) throw invalidOption("a session id must be a string without lone surrogates");
    // Logs of the server and of shared state have ids with this prefix.
    if (id.startsWith("holdfast:")) throw invalidOption(`the session id ${id} is reserved`);
    const info = toInfo(id, await make(id, Date.now()));
    await limits.opened(id);
    return info;
  }

  function toInfo(id: string, session: Session): SessionInfo {
    const { version, touched, episode, task, labels } = session;
    const about = { task: copyJson(task, "task"), labels: copyJson(labels, "labels") as Labels };
    return {
      session: id,
      version,
      touched,
      episode,
      ...about,
      ...headingOf(session),
      ...kind.conversation?.describeConversation(session),
    };
  }

  /** Returns a listed session's info; undefined if it lacks one of the labels, or was deleted since it was listed. */
  async function labelled(id: string, wanted: Labels): Promise<SessionInfo | undefined> {
    const found = await logs.peek(id);
    const { labels = {} } = found?.session ?? {};
    const isWanted = Object.entries(wanted).every(([name, value]) => equalJson(labels[name] ?? null, value));
    if (!found || !isWanted) return undefined;
    return toInfo(id, found.session);
  }

  function restore(id: string, saved: SavedSession): Promise<Session> {
    const checked = checkedSave(saved, kind.conversation ? "conversations" : "episodes");
    const [opened, ...rest] = checked.events;
    const events = [{ ...opened, environment } as Event, ...rest];
    return kind.restore(id, events, checked).catch((thrown: unknown) => {
      // The events are applied before they are stored. This throws one of these errors if they contradict each other.
      if (!(thrown instanceof TypeError) && !(isHoldfastError(thrown) && thrown.code === "store_corrupt")) throw thrown;
      throw invalidOption("this is not a saved session: its events contradict each other");
    });
  }

  /** Returns the version before a turn. */
  async function versionBefore(log: OpenLog, invocation: string): Promise<number> {
    const { id } = log;
    await exclusive(log, undefined, () => logs.refresh(log));
    assertOpen(log);
    for await (const event of logs.events(id)) {
      if (event.type !== "invocation.began" || event.invocation !== invocation) continue;
      if (isInForce(log.session, event.version)) return event.version - 1;
    }
    const message = `session ${id} has no turn ${invocation}, or that turn was already undone`;
    throw new HoldfastError("version_not_found", message, { detail: { invocation } });
  }

  async function rewind(log: OpenLog, to: number | { before: string }): Promise<SessionInfo> {
    const open = (): void => {
      assertOpen(log);
      assertWithinLimits(log);
      const refusal = kind.conversation?.refusal(log);
      if (refusal) throw refusal;
    };
    // A missing version is reported even if the session has ended.
    const version = typeof to === "number" ? to : await versionBefore(log, to.before);
    const { session: then } = await logs.load(log.id, version);
    return exclusive(log, undefined, async () => {
      await logs.commit(log, open, (session) => {
        // An episode's labels belong to its seed. A conversation's labels describe the whole conversation.
        const labels = kind.conversation ? session.labels : then.labels;
        return rewound({ ...then, labels }, timeNow(session));
      });
      return toInfo(log.id, log.session);
    });
  }

  const verbs: SharedVerbs<State, Fork> = {
    cache: logs.counts,
    newSession: newId,
    info: (id) => read(id, (session) => toInfo(id, session)),
    peek: (id) => track(() => logs.useIfThere(id, (log) => readNow(log, (session) => toInfo(id, session)))),
    state: (id, version) =>
      version === undefined
        ? read(id, readState)
        : track(async () => readState((await logs.load(id, version)).session)),
    async *events(id, options = {}) {
      const { after = 0 } = options;
      refuseUnknown("events", options, { after }, invalidOption);
      if (!Number.isInteger(after) || after < 0) throw invalidOption("`after` must be a version, or 0");
      // Throws if the session belongs to another environment. Does not copy the state, which may be large.
      await use(id, () => Promise.resolve());
      yield* logs.events(id, after);
    },
    async *list({ user, labels, ...filter } = {}) {
      assertRunning();
      refuseUnknown("list", filter, ofList, invalidOption);
      const wanted = { ...labels, ...(user !== undefined && { user }) };
      const isLabelled = kind.conversation !== undefined || Object.keys(wanted).length > 0;
      let count = 0;
      for await (const listed of store.list({ ...filter, environment })) {
        const row = isLabelled ? await labelled(listed.session, wanted) : listed;
        if (row) yield row;
        // Many sessions may be read before one matches, so other requests get their turn in between.
        if (isLabelled && ++count % listedInARow === 0) await new Promise((resolve) => setImmediate(resolve));
      }
    },
    fork: (id, given) =>
      track(() => create((child, at) => kind.fork(child, id, at, given ?? ({} as Fork)), given?.session)),
    save: (id) =>
      track(async () => {
        const { session } = await logs.load(id);
        const events: Event[] = [];
        for await (const { version: _, ...event } of logs.events(id)) events.push(event as Event);
        return { of: environment, session: id, events, ...(await kind.conversation?.readSaved(session)) };
      }),
    restore: (saved, id) => track(() => create((session) => restore(session, saved), id)),
    rewind: (id, to) => useOpen(id, (log) => rewind(log, to)),
    close: (id) => track(() => end(id, "closed")),
    expire: () => track(limits.expire),
    stop({ within } = {}) {
      stopping ??= new Promise((resolve) => {
        clearInterval(clock);
        allDone = resolve;
        if (running === 0) resolve();
      });
      if (within === undefined || running === 0) return stopping;
      const timer = setTimeout(() => {
        stopped = new HoldfastError(
          "engine_stopped",
          `calls were still running ${within} ms after the engine was stopped`,
        );
        logs.stopAll(stopped);
      }, within);
      return stopping.finally(() => clearTimeout(timer));
    },
  };

  return { verbs, track, use, useOpen, create, assertRunning, assertOpen, assertWithinLimits };
}

/** Returns the event that restores a session to an earlier version. */
function rewound(then: Session, at: number): Event {
  const { version: to, episode, task, randomness, labels, state, conversation } = then;
  const event: Event = {
    type: "session.rewound",
    at,
    to,
    episode,
    task,
    randomness,
    labels,
    delta: replaceState(copyJson(state, "state")),
  };
  if (conversation) event.conversation = resting(conversation);
  return event;
}

function closedError(id: string, reason: EndReason): HoldfastError {
  const how = reason === "closed" ? "was closed" : `was ended by its ${reason === "idle" ? "idle time" : reason} limit`;
  return new HoldfastError("session_closed", `session ${id} ${how}`, { detail: { reason } });
}

/** Copies a saved session, and checks that every event type is valid for that kind of session. */
function checkedSave(saved: SavedSession, kind: "episodes" | "conversations"): SavedSession {
  const { events, shared = {} } = Object(saved) as Partial<SavedSession>;
  if (!Array.isArray(events)) throw wrong("it has no events");
  if (typeof shared !== "object" || shared === null) throw wrong("its shared state is not an object");
  const copied = copyJson(saved, "the saved session", "drop") as unknown as SavedSession;
  for (const [at, event] of copied.events.entries()) {
    if (!isEventOf(kind, event.type) || (at === 0) !== (event.type === "session.opened")) {
      throw wrong(`event ${at + 1} has a wrong type`);
    }
    const fault = "items" in event && event.items !== undefined ? faultInItems(event.items) : undefined;
    if (fault) throw wrong(`the items of event ${at + 1} are invalid: ${fault}`);
  }
  const [opened] = copied.events;
  if (opened?.type !== "session.opened") throw wrong("its first event is not session.opened");
  const { user } = copied;
  if (user !== undefined && opened.labels?.["user"] !== user) throw wrong("it belongs to another user");
  return copied;
}

function wrong(what: string): HoldfastError {
  return invalidOption(`this is not a saved session: ${what}`);
}
