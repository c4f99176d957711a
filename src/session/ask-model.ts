// createAskModel(): asks a model on behalf of a harness, and commits the request with its answer as one event. Other
// calls can use the session while the model answers.
import { HoldfastError } from "../core/errors.ts";
import type { EventOf } from "../core/event.ts";
import { modelKey } from "../core/event-key.ts";
import { copyJson, type Json } from "../core/json.ts";
import { faultInItems, type Item, type ModelRequest, type ModelResponse } from "../core/model.ts";
import { isInForce } from "../core/session.ts";
import type { ModelLimits, ModelTotals } from "../core/model-exchange.ts";
import type { ModelAnswer, AskModelOptions } from "../core/sessions.ts";
import { unlessAborted } from "../io/abort.ts";
import { digestOf, ExchangeIndex } from "./exchange-index.ts";
import { exclusive } from "./exclusive.ts";
import { assertCallId, undone } from "./find-repeat.ts";
import { timeNow, type Logs } from "./log.ts";
import { findable, type OpenLog } from "./open-log.ts";

type ModelCalled = EventOf<"model.called">;

export interface AskModelEngine {
  logs: Logs;
  /** Throws if the session has ended or is ending. */
  assertOpen(log: OpenLog): void;
  /** Throws if the session is over a limit. */
  assertWithinLimits(log: OpenLog): void;
}

/** A running request. */
interface Asking {
  log: OpenLog;
  options: AskModelOptions;
  input: Item[];
  fields: { [field: string]: Json };
  digest: string;
  episode: number;
  /** The session's version when the request began. */
  seen: number;
  /** Cancels the request to the model. */
  ending: AbortController;
}

/** Longest delay of a timer in milliseconds. */
const longestDelay = 2_147_483_647;

export function createAskModel({ logs, assertOpen, assertWithinLimits }: AskModelEngine) {
  const indexes = new WeakMap<OpenLog, ExchangeIndex>();
  /** For each log: the requests that a model is answering. */
  const askedNow = new WeakMap<OpenLog, Map<Promise<ModelAnswer>, Asking>>();
  /** When this process got an episode's first request. Failed requests are not in the log, but their time counts. */
  const firstAsked = new WeakMap<OpenLog, { episode: number; at: number }>();
  /** Requests that failed in this process, by digest, with the session's version. A repeat asks the model again. */
  const failed = new WeakMap<OpenLog, Map<string, number>>();

  async function askModel(log: OpenLog, request: ModelRequest, options: AskModelOptions): Promise<ModelAnswer> {
    const { call, isRepeat = false } = options;
    assertCallId(call);
    const { input, ...fields } = copyJson(request, "the request", "drop") as unknown as ModelRequest;
    const fault = faultInItems(input);
    if (fault) throw new HoldfastError("invalid_option", `the request's input is invalid: ${fault}`);
    const digest = digestOf({ input, fields } as unknown as Json);
    await exclusive(log, undefined, () => logs.refresh(log));
    const { episode, version: seen } = log.session;
    const ending = new AbortController();
    const asking: Asking = { log, options, input, fields: fields as Asking["fields"], digest, episode, seen, ending };
    // A recorded answer is still available after the episode has ended.
    const recorded = (call !== undefined || isRepeat) && (await recordedAnswer(asking));
    if (recorded) return recorded;
    assertReady(asking);
    const key = call === undefined ? `asked ${episode} ${digest}` : modelKey(episode, call);
    const running = log.runningCalls?.get(key) as Promise<ModelAnswer> | undefined;
    // A repeat waits for the running request. If that request fails, the repeat asks the model itself.
    const first = running && (call !== undefined || isRepeat) ? await running.catch(() => undefined) : undefined;
    if (first) return (await recordedAnswer(asking)) ?? { ...first, repeated: true };
    try {
      const found = await findable(log, key, () => answeredInTurn(asking));
      failed.get(log)?.delete(digest);
      return found;
    } catch (thrown) {
      const failures = failed.get(log) ?? new Map<string, number>();
      failed.set(log, failures.set(digest, log.session.version));
      throw thrown;
    }
  }

  /** Cancels the running requests of an episode that has ended or was verified. Their answers would be refused. */
  function cancelRefused(log: OpenLog): void {
    for (const { episode, ending } of askedNow.get(log)?.values() ?? []) {
      try {
        assertAskable(log, episode);
      } catch (thrown) {
        ending.abort(thrown);
      }
    }
  }

  function assertReady(asking: Asking): void {
    const { log, episode, options } = asking;
    assertAskable(log, episode);
    assertWithinLimits(log);
    const reached = limitReached(usedIn(asking), options.limits ?? {}, 0);
    if (reached) throw overLimit(log, reached);
  }

  function usedIn({ log, episode }: Asking): ModelTotals {
    let first = firstAsked.get(log);
    if (first?.episode !== episode) firstAsked.set(log, (first = { episode, at: Date.now() }));
    const { models = { calls: 0, tokens: 0, since: first.at } } = log.session;
    return { ...models, since: Math.min(models.since, first.at) };
  }

  /** Throws if the session has ended, or if the expected episode has ended, was verified or was never seeded. */
  function assertAskable(log: OpenLog, expected: number): void {
    assertOpen(log);
    const { episode, verified } = log.session;
    if (episode === 0) {
      throw new HoldfastError("session_unseeded", `session ${log.id} must be seeded before a model is asked`);
    }
    if (episode !== expected) {
      throw new HoldfastError("episode_ended", "the session was seeded again before the model's answer was committed");
    }
    if (verified >= episode)
      throw new HoldfastError(
        "episode_over",
        `episode ${episode} of session ${log.id} was verified, so it takes no more model answers; start a new episode`,
      );
  }

  /** Asks the model. While running requests may use up the limit, waits for one of them, because it may fail. */
  async function answeredInTurn(asking: Asking): Promise<ModelAnswer> {
    const { log, options } = asking;
    const running = askedNow.get(log) ?? new Map<Promise<ModelAnswer>, Asking>();
    askedNow.set(log, running);
    for (;;) {
      assertReady(asking);
      const isFull = limitReached(usedIn(asking), options.limits ?? {}, running.size) !== undefined;
      if (!isFull || running.size === 0) break;
      await Promise.race(running.keys()).catch(() => undefined);
    }
    const answering = answered(asking);
    running.set(answering, asking);
    try {
      return await answering;
    } finally {
      running.delete(answering);
    }
  }

  /** Asks the model and commits its answer. */
  async function answered(asking: Asking): Promise<ModelAnswer> {
    const { log, options, input, fields, ending } = asking;
    const { signal } = ending;
    const stop = (reason: HoldfastError): void => ending.abort(reason);
    (log.running ??= new Set()).add(stop);
    const { seconds = Infinity } = options.limits ?? {};
    const left = usedIn(asking).since + seconds * 1000 - Date.now();
    const timer = left < longestDelay ? setTimeout(() => stop(overLimit(log, timeLimit(seconds))), left) : undefined;
    const began = timeNow(log.session);
    try {
      const responding = options.respond({ ...fields, input }, signal);
      const response = await unlessAborted(signal, responding, () => signal.reason).catch((thrown: unknown) => {
        throw signal.aborted ? signal.reason : thrown;
      });
      clearTimeout(timer);
      return await committed(asking, checkedAnswer(response), began);
    } finally {
      clearTimeout(timer);
      log.running.delete(stop);
    }
  }

  function committed(asking: Asking, response: ModelResponse, began: number): Promise<ModelAnswer> {
    const { log, options, input, fields, digest, episode, seen } = asking;
    const { call, isRepeat = false, model } = options;
    const { output, usage, model: answeredBy, ...others } = response;
    let recorded: number | undefined;
    let items = output;
    const refresh = (): Promise<void> => logs.refresh(log);
    return exclusive(log, undefined, async () => {
      const result = await logs.commit(
        log,
        () => assertAskable(log, episode),
        async (session) => {
          const index = await caughtUp(log);
          const repeat = index.repeated(digest);
          // Another process has committed an answer to the same request in the meantime.
          if (repeat && repeat.version > seen && (isRepeat || repeat.isRepeat)) {
            recorded = repeat.version;
            return undefined;
          }
          // Other processes may have used up the calls. An answer above another limit is kept, because it was paid for.
          const reached = limitReached(session.models, { calls: options.limits?.calls }, 0);
          if (reached) {
            const isRecorded = call !== undefined && (await logs.find(log.id, modelKey(episode, call))) !== undefined;
            if (isRecorded) return undefined;
            throw overLimit(log, reached);
          }
          items = index.withNewCalls(output, session.version + 1);
          const at = timeNow(session);
          const event: ModelCalled = {
            type: "model.called",
            at,
            episode,
            digest,
            ...index.split(input, fields),
            output: items,
            model: answeredBy ?? model,
          };
          if (began !== at) event.began = began;
          if (call !== undefined) event.call = call;
          if (isRepeat) event.isRepeat = true;
          if (usage) event.usage = usage;
          if (Object.keys(others).length > 0) event.response = others as NonNullable<ModelCalled["response"]>;
          return event;
        },
      );
      if (result === "ok") {
        const { version, touched: at } = log.session;
        return { session: log.id, version, at, response: { ...response, output: items }, repeated: false };
      }
      const found = recorded === undefined ? await answerWithId(asking, refresh) : await eventAt(log, recorded);
      if (found?.type === "model.called") return answerIn(log, found);
      throw new HoldfastError("store_failed", `the store has lost a model's answer on session ${log.id}; ask again`);
    });
  }

  /** Returns the exchange with the request's id. Throws if it was a different request, or if a rewind undid it. */
  async function answerWithId(
    { log, options: { call = "" }, digest, episode }: Asking,
    refresh: () => Promise<void>,
  ): Promise<(ModelCalled & { version: number }) | undefined> {
    const event = await logs.find(log.id, modelKey(episode, call));
    if (event?.type !== "model.called") return undefined;
    if (event.digest !== digest) {
      throw new HoldfastError("call_conflict", `the call id ${call} was used before, for another request to a model`);
    }
    // A rewind may follow an event that is newer than the session in memory, so refresh first.
    if (event.version > log.session.version) await refresh();
    if (!isInForce(log.session, event.version)) throw undone(call);
    return event;
  }

  /** Returns the recorded answer to a repeated request. */
  async function recordedAnswer(asking: Asking): Promise<ModelAnswer | undefined> {
    const { log, options, digest } = asking;
    if (options.call !== undefined) {
      const event = await answerWithId(asking, () => exclusive(log, undefined, () => logs.refresh(log)));
      return event && answerIn(log, event);
    }
    const index = await exclusive(log, undefined, () => caughtUp(log));
    const repeat = index.repeated(digest);
    // If an equal request failed after this answer, the caller repeats the failed request and needs a new answer.
    if (!repeat || (failed.get(log)?.get(digest) ?? 0) >= repeat.version) return undefined;
    const event = await eventAt(log, repeat.version);
    return event?.type === "model.called" ? answerIn(log, event) : undefined;
  }

  /** Returns the log's index, after it has read all events up to the version of the session in memory. */
  async function caughtUp(log: OpenLog): Promise<ExchangeIndex> {
    let index = indexes.get(log);
    if (!index) indexes.set(log, (index = new ExchangeIndex()));
    if (index.version >= log.session.version) return index;
    for await (const event of logs.events(log.id, index.version)) {
      if (event.version > log.session.version) break;
      index.add(event);
    }
    return index;
  }

  async function eventAt(log: OpenLog, version: number) {
    for await (const event of logs.events(log.id, version - 1)) return event;
    return undefined;
  }

  return { askModel, cancelRefused };
}

function answerIn(
  log: OpenLog,
  { version, at, output, usage, response, model }: ModelCalled & { version: number },
): ModelAnswer {
  const status = response?.["status"] === "incomplete" ? ("incomplete" as const) : ("completed" as const);
  const recorded: ModelResponse = { ...response, model, output, status, ...(usage && { usage }) };
  return { session: log.id, version, at, response: recorded, repeated: true };
}

/** Returns a copy of a model's answer. The log keeps it forever, so its items must be valid. */
function checkedAnswer(response: ModelResponse): ModelResponse {
  const copy = copyJson(response, "the model's answer", "drop") as unknown as ModelResponse;
  const fault = faultInItems(Object(copy).output);
  if (!fault) return copy;
  throw new HoldfastError("model_failed", `the model sent an invalid answer: ${fault}`);
}

function overLimit({ id }: OpenLog, { limit, words }: { limit: string; words: string }): HoldfastError {
  const message = `the episode was stopped: it has used up its limit of ${words}`;
  return new HoldfastError("limit_reached", message, { detail: { session: id, limit } });
}

const timeLimit = (seconds: number) => ({ limit: "seconds", words: `${seconds} seconds` });

/** Returns the limit that an episode has reached. `running`: how many requests a model is answering. */
export function limitReached(
  used: ModelTotals = { calls: 0, tokens: 0, since: Date.now() },
  { calls, tokens, seconds, cost }: ModelLimits,
  running: number,
): { limit: string; words: string } | undefined {
  if (calls !== undefined && used.calls + running >= calls) {
    return { limit: "steps", words: `${calls} model calls` };
  }
  if (tokens !== undefined && used.tokens >= tokens) return { limit: "tokens", words: `${tokens} tokens` };
  if (seconds !== undefined && Date.now() - used.since >= seconds * 1000) {
    return timeLimit(seconds);
  }
  if (cost !== undefined && (used.cost ?? 0) >= cost) return { limit: "cost", words: `a cost of ${cost}` };
  return undefined;
}
