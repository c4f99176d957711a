// createClient(): uses a server's environment or agent from a program or a web page, with the verbs of `Sessions`.
import type { RunOptions, RunResult, Asked } from "../agent/run.ts";
import type { PartialEvent, RunEvent } from "../agent/invocation.ts";
import type { Agent } from "../core/agent.ts";
import type { AnyEnvironment, StateOf, TaskOf, ToolInput, ToolName, ToolOutput } from "../core/environment.ts";
import { HoldfastError, isHoldfastError, unlessCoded } from "../core/errors.ts";
import type { NumberedEvent } from "../core/event.ts";
import { finalText } from "../core/last-words.ts";
import type {
  Answer,
  CallArguments,
  CallOptions,
  ConversationFork,
  Conversations,
  Episodes,
  ListFilter,
  OpenConversation,
  OpenOptions,
  Seeded,
  SeedOptions,
  SessionInfo,
  VerifyOptions,
} from "../core/sessions.ts";
import { createRequests, type ClientOptions } from "./requests.ts";
import { followStream, readMessages, type FollowOptions } from "./sent-events.ts";

export type { ClientOptions } from "./requests.ts";
export type { Connection, FollowOptions } from "./sent-events.ts";

type SharedVerb = "info" | "peek" | "list" | "events" | "rewind" | "close" | "expire";

/** The verbs that a server offers for environments and agents alike. */
interface SharedClient extends Pick<Episodes, SharedVerb> {
  /**
   * Yields the session's events as they are committed, until the session ends. Resumes a broken connection.
   * @example for await (const event of client.follow(session)) console.log(event.type);
   */
  follow(session: string, options?: FollowOptions): AsyncIterable<NumberedEvent>;
}

/** The options of a request that the server finishes and records, even if its client stops waiting. */
interface Stoppable {
  /** Stops waiting for the answer. A later request with the same call id, or the same verify, returns it. */
  signal?: AbortSignal;
}

/** A served environment, with the verbs of `Sessions`. */
export interface EnvironmentClient<E extends AnyEnvironment = AnyEnvironment>
  extends SharedClient, Pick<Episodes<E>, "rewards" | "replay"> {
  open(options?: Omit<OpenOptions<TaskOf<E>>, "session">): Promise<SessionInfo>;
  seed(session: string, task: TaskOf<E>, options?: Omit<SeedOptions, "first">): Promise<Seeded>;
  call<Name extends ToolName<E>>(
    session: string,
    tool: Name,
    ...input: CallArguments<
      ToolInput<E, Name>,
      Omit<CallOptions, "seen" | "seeded" | "onProgress" | "signal"> & Stoppable
    >
  ): Promise<Answer<ToolOutput<E, Name>>>;
  state(session: string, version?: number): Promise<StateOf<E>>;
  fork(session: string, options?: { version?: number }): Promise<SessionInfo>;
  verify(
    session: string,
    options?: Omit<VerifyOptions, "task" | "signal"> & Stoppable & { task?: TaskOf<E> },
  ): ReturnType<Episodes["verify"]>;
}

/** The options of a turn. */
export type TurnOptions = Omit<RunOptions, "sessions" | "busy">;

/**
 * An event of a turn. `attempt` of a piece counts the connections. After a lost connection, an answer in progress starts
 * again, so a higher `attempt` replaces the pieces since the last committed event.
 */
export type StreamedEvent = Exclude<RunEvent, PartialEvent> | (PartialEvent & { attempt: number });

/** A served agent, with the verbs of `Sessions`, and also `run` and `ask`. */
export interface AgentClient extends SharedClient, Pick<Conversations, "state" | "label"> {
  open(options?: Omit<OpenConversation, "session">): Promise<SessionInfo>;
  fork(session: string, options?: Omit<ConversationFork, "session">): Promise<SessionInfo>;
  replay(session: string): ReturnType<Conversations["replay"]>;
  cancel(session: string): Promise<boolean>;
  /**
   * Returns a token that opens only the conversations of one user. Needs the server's own token. `expires`: in
   * milliseconds since 1970; by default in 24 hours.
   * @example const { token } = await client.userToken("ann");
   */
  userToken(user: string, expires?: number): Promise<{ token: string; user: string; expires: number }>;
  /**
   * Runs a turn and yields its events. A lost connection is resumed, and the turn is applied once.
   * @example for await (const event of client.run({ session, message: "hello" })) console.log(event.type);
   */
  run(options: TurnOptions): AsyncGenerator<StreamedEvent, RunResult, undefined>;
  /**
   * Runs a turn to its end and returns the answer.
   * @example const { text } = await client.ask({ session, message: "hello" });
   */
  ask(options: Omit<TurnOptions, "stream">): Promise<Asked>;
}

/** The client for a definition: `Client<typeof counter>`. */
export type Client<Definition> = Definition extends AnyEnvironment ? EnvironmentClient<Definition> : AgentClient;

type Served = AnyEnvironment | Agent;

/**
 * Creates a client for an environment or agent on a server. If it is not served at the root, the URL ends in its name.
 * Failed requests are sent again, and calls, seeds and turns have ids, so that each is applied once.
 *
 * @example
 * const client = createClient<typeof counter>("http://127.0.0.1:8080");
 * const { session } = await client.open({ task: { initial_count: 3, expected_count: 5 } });
 * await client.call(session, "increment_counter", { count: 2 });
 * const { reward } = await client.verify(session);
 */
export function createClient<Definition extends Served = AnyEnvironment>(
  url: string,
  options: ClientOptions = {},
): Client<Definition> {
  const requests = createRequests(url, options);
  const { ask } = requests;
  const at = (session: string, verb = ""): string => `/v1/sessions/${encodeURIComponent(session)}${verb}`;

  function open(given: OpenOptions<unknown> & OpenConversation = {}): Promise<SessionInfo> {
    const { randomSeed: random, task, labels, user, state, isolated } = given;
    return ask("POST", "/v1/sessions", { body: { task, random, labels, user, state, isolated } });
  }

  const info = (session: string): Promise<SessionInfo> => ask("GET", at(session));

  async function* list({ openedBefore, idleBefore, labels, ...filter }: ListFilter = {}): AsyncGenerator<SessionInfo> {
    const wanted = {
      ...filter,
      opened_before: openedBefore,
      idle_before: idleBefore,
      labels: labels && JSON.stringify(labels),
      limit: 1000,
    };
    for (let after: string | null | undefined = filter.after; after !== null;) {
      const path = `/v1/sessions?${toQuery({ ...wanted, after })}`;
      const page: { sessions: SessionInfo[]; next: string | null } = await ask("GET", path);
      yield* page.sessions;
      after = page.next;
    }
  }

  async function* events(session: string, { after = 0 } = {}): AsyncGenerator<NumberedEvent> {
    for (let from: number | null = after; from !== null;) {
      const path = at(session, `/events?${toQuery({ after: from, limit: 1000 })}`);
      const page: { events: NumberedEvent[]; next: number | null } = await ask("GET", path);
      yield* page.events;
      from = page.next;
    }
  }

  async function* follow(session: string, followed: FollowOptions = {}): AsyncGenerator<NumberedEvent> {
    const connect = async (last: number): Promise<ReadableStream<Uint8Array> | undefined> => {
      const headers = { accept: "text/event-stream", "last-event-id": String(last) };
      const response = await requests.attempt("GET", at(session, "/events"), { headers, signal: followed.signal });
      return response.status === 204 ? undefined : (response.body ?? undefined);
    };
    for await (const group of followStream(connect, followed)) yield* group;
  }

  /** Sends a turn once. Yields the events that its reader lacks, and returns the result. */
  async function* attemptRun(
    session: string,
    { message, clientTools, results, stateDelta, labels, user, seen, call, signal, stream = false }: TurnOptions,
    reading: Reading,
  ): AsyncGenerator<StreamedEvent, RunResult, undefined> {
    const body = { message, client_tools: clientTools, results, state_delta: stateDelta, labels, user, seen };
    const headers = { accept: "text/event-stream" };
    const response = await requests.attempt("POST", at(session, "/run"), { body, key: call, headers, signal });
    const stopped = new Error("the connection closed before the turn had ended");
    const groups = readMessages(response.body ?? new ReadableStream({ start: (empty) => empty.close() }));
    try {
      for (;;) {
        const { done, value: messages = [] } = await requests.reading(signal, async () => groups.next());
        if (done) return await requests.reading(signal, () => Promise.reject(stopped));
        for (const { event, data } of messages) {
          if (event === "done") return JSON.parse(data) as RunResult;
          if (event === "error") throw sentError(JSON.parse(data) as SentError);
          const sent = JSON.parse(data) as RunEvent;
          if (sent.type === "partial" ? !stream : sent.version <= reading.last) continue;
          reading.retry = requests.createRetry(signal);
          if (sent.type !== "partial") reading.last = sent.version;
          yield sent.type === "partial" ? { ...sent, attempt: reading.attempt } : sent;
        }
      }
    } finally {
      // A caller that stops reading closes the connection, which cancels the run.
      await groups.return();
    }
  }

  /** Yields the events of a turn that its reader lacks, from the log. Returns the result if the turn has ended. */
  async function* readTurn(
    { session, version: after, turn }: SessionInfo,
    reading: Reading,
  ): AsyncGenerator<StreamedEvent, RunResult | undefined, undefined> {
    for await (const event of events(session, { after })) {
      if (!("invocation" in event) || event.invocation !== turn?.invocation) continue;
      if (event.version > reading.last && !event.type.startsWith("turn.")) {
        reading.last = event.version;
        yield event as Asked["events"][number];
      }
      if (event.type !== "agent.ended" || !event.last) continue;
      return { session, invocation: event.invocation, outcome: event.outcome, repeated: true };
    }
    return undefined;
  }

  async function* run(given: TurnOptions): AsyncGenerator<StreamedEvent, RunResult, undefined> {
    const { signal, user, throwOnFailure = true } = given;
    const session = given.session ?? (await open({ user })).session;
    // A request that continues an interrupted turn has no id of its own, so its lost events are read from the log.
    const isContinuing = given.message === undefined && given.results === undefined;
    const call = given.call ?? (isContinuing ? undefined : newId());
    const before = isContinuing ? await info(session) : undefined;
    const reading: Reading = { last: before?.version ?? 0, attempt: 1, retry: requests.createRetry(signal) };
    let result: RunResult | undefined;
    for (; !result; reading.attempt++) {
      try {
        result = yield* attemptRun(session, { ...given, call }, reading);
      } catch (thrown) {
        const isOver = reading.attempt > 1 && isHoldfastError(thrown) && thrown.code === "nothing_to_continue";
        if (!isOver) await reading.retry(thrown);
        if (before) result = yield* readTurn(before, reading);
        if (isOver && !result) throw thrown;
      }
    }
    const { error } = result;
    if (error && throwOnFailure) throw new HoldfastError(error.code, error.message);
    return result;
  }

  const client: EnvironmentClient & AgentClient = {
    open,
    info,
    peek: (session) => info(session).catch(unlessCoded("session_not_found")),
    list,
    events,
    follow,
    state: async (session: string, version?: number) =>
      (await ask<{ state: never }>("GET", at(session, `/state?${toQuery({ version })}`))).state,
    fork: (session, forked = {}) => ask("POST", at(session, "/fork"), { body: forked }),
    rewind: (session, to) =>
      ask("POST", at(session, "/rewind"), {
        body: typeof to === "number" ? { version: to } : { invocation: to.before },
      }),
    replay: (session: string) => ask("POST", at(session, "/replay")),
    label: (session, labels) => ask("POST", at(session, "/label"), { body: { labels } }),
    close: async (session) => (await ask<{ closed: boolean }>("DELETE", at(session))).closed,
    cancel: async (session) => (await ask<{ cancelled: boolean }>("POST", at(session, "/cancel"))).cancelled,
    userToken: (user, expires) => ask("POST", "/v1/tokens", { body: { user, expires } }),
    expire: async () => (await ask<{ ended: number }>("POST", "/v1/expire")).ended,
    seed: (session, task, { randomSeed: random, labels, call = newId() } = {}) =>
      ask("POST", at(session, "/seed"), { body: { task, random, labels }, key: call }),
    call: (session, tool, ...[input, { call = newId(), episode, signal } = {}]) =>
      ask("POST", at(session, "/call"), { body: { tool, input, episode }, key: call, signal }),
    verify: (session, { signal, ...body } = {}) => ask("POST", at(session, "/verify"), { body, signal }),
    rewards: async (session, { signal } = {}) =>
      (await ask<{ rewards: never }>("GET", at(session, "/rewards"), { signal })).rewards,
    run,
    async ask(given) {
      const running = run(given);
      const seen: Asked["events"] = [];
      for (;;) {
        const { done, value } = await running.next();
        if (done) return { ...value, text: finalText(seen), events: seen };
        if (value.type !== "partial") seen.push(value);
      }
    },
  };
  return client as Client<Definition>;
}

/** How far the reader of a turn has got. */
interface Reading {
  /** The version of the last committed event that was yielded. */
  last: number;
  attempt: number;
  /** Waits before the next attempt, or throws the failure. Renewed by each event. */
  retry(thrown: unknown): Promise<void>;
}

function toQuery(fields: { [name: string]: unknown }): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) query.set(name, String(value));
  return query.toString();
}

type SentError = ReturnType<HoldfastError["toJSON"]>;

const sentError = ({ error: { code, message, detail } }: SentError): HoldfastError =>
  new HoldfastError(code, message, { detail });

/** Returns an id for a call. `crypto.randomUUID` is missing on pages that were not loaded over HTTPS. */
const newId = (): string => Array.from(crypto.getRandomValues(new Uint8Array(16)), toHex).join("");

const toHex = (byte: number): string => byte.toString(16).padStart(2, "0");
