// createRolloutRequests(): runs requests for rollouts, and returns their rows as they finish. A request and its rows
// are a log in the store. If a process dies, any other process continues its requests, and no row is lost or returned
// twice.
import { randomBytes, randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { HoldfastError, isHoldfastError } from "../core/errors.ts";
import { createRequestLog, logName, type RequestLog, type RequestState, type Written } from "./requests/log.ts";
import { createMemoryLimit } from "./requests/memory-limit.ts";
import { createPlaying, type PlayingOptions } from "./requests/playing.ts";
import { createReading, unknownRequest, type LinesOptions, type RequestInfo } from "./requests/reading.ts";
import { assertRequestId, digestRequest, type RolloutRequest } from "./requests/request.ts";

export interface RolloutRequestsOptions extends PlayingOptions {
  /** Milliseconds without a heartbeat after which another process takes over a request. Default 15,000. */
  lease?: number | undefined;
  /** Called when a request cannot be run now. The request is retried while a client reads it. */
  onError?: ((thrown: unknown) => void) | undefined;
}

export interface RolloutRequests {
  /**
   * Starts a request, or finds the request with the same id. A different request with the same id fails with
   * `call_conflict`.
   * @example const request = await requests.start({ tasks, repeats: 8, model: { url, name: "policy" } });
   */
  start(asked: RolloutRequest): Promise<string>;
  /**
   * Yields a request's lines as JSON until the request ends. Starts after an index, if an index is given. Yields a line
   * of type "waiting" after every five seconds without another line.
   * @example for await (const line of await requests.lines(request)) console.log(JSON.parse(line));
   */
  lines(request: string, options?: LinesOptions): Promise<AsyncIterable<string>>;
  /** Lists requests in the order in which they started, after the request `after` if it is given. */
  list(after?: string): AsyncIterable<RequestInfo>;
  /** Ends a request and stops its running episodes. Returns false if it had already ended. */
  cancel(request: string): Promise<boolean>;
  /** Deletes an ended request and its rows. Returns false if it has not ended. */
  delete(request: string): Promise<boolean>;
  /** Stops running requests. Another process can continue them immediately. */
  stop(): Promise<void>;
}

const defaultLease = 15_000;
/** Milliseconds between two checks of a request that another process runs. */
const lookEvery = 200;
/** Milliseconds before retrying a request that could not be run. */
const retryAfter = 1_000;
/** Milliseconds that running episodes have to end at a stop. */
const stopWithin = 2_000;

/** Writes to a log. Returns false if the request belongs to another process, or has ended. */
async function wrote(log: RequestLog, ...written: Written[]): Promise<boolean> {
  try {
    await log.write(...written);
    return true;
  } catch (thrown) {
    if (isHoldfastError(thrown) && thrown.code === "turn_lost") return false;
    throw thrown;
  }
}

/** A request that this process runs or is waiting to run. */
interface Active {
  stop: AbortController;
  /** Set while this process runs the request. */
  log?: RequestLog;
  over: Promise<void>;
}

/**
 * Runs requests for rollouts of one environment.
 *
 * @example
 * const requests = createRolloutRequests({ store, episodes, sessions });
 * const request = await requests.start({ tasks, repeats: 8, model: { url: "http://127.0.0.1:8000/v1", name: "policy" } });
 * for await (const line of await requests.lines(request)) console.log(JSON.parse(line));
 */
export function createRolloutRequests(options: RolloutRequestsOptions): RolloutRequests {
  const { store, episodes, lease = defaultLease, onError } = options;
  const { name: environment } = episodes.environment;
  const playing = createPlaying(options);
  const owner = randomBytes(9).toString("base64url");
  const active = new Map<string, Active>();
  let isStopped = false;
  const limit = createMemoryLimit(store, environment, (request) => active.has(request));
  const reading = createReading(store, environment, limit, (request) => keep(request));

  const claim: Written = { type: "claimed", owner, lapsesAfter: lease };
  const isOurs = ({ claim: held }: RequestState): boolean => held?.owner === owner;

  const openLog = (request: string, mayWrite: (state: RequestState) => boolean): RequestLog =>
    createRequestLog({ store, environment, request, mayWrite, onWritten: () => reading.wake(request) });

  /** Runs a request in this process, unless it already runs. `begun`: its log, if this process has claimed it. */
  function keep(request: string, begun?: RequestLog): void {
    if (isStopped || active.has(request)) return;
    const entry: Active = { stop: new AbortController(), over: Promise.resolve() };
    const { signal } = entry.stop;
    active.set(request, entry);
    entry.over = play(request, entry, begun)
      .catch(async (thrown: unknown) => {
        const isLost = isHoldfastError(thrown) && thrown.code === "turn_lost";
        // Another process has taken over.
        if (isLost && !(entry.log && isOurs(entry.log.state))) return;
        onError?.(thrown);
        await delay(retryAfter, undefined, { signal }).catch(() => undefined);
      })
      .finally(() => {
        active.delete(request);
        reading.wake(request);
      });
  }

  /** Runs a request until it ends, is taken over or is stopped. */
  async function play(request: string, entry: Active, begun: RequestLog | undefined): Promise<void> {
    const { signal } = entry.stop;
    const log = begun ?? openLog(request, isOurs);
    if (!begun && !(await claimed(log, signal))) return;
    entry.log = log;
    const stopRenewing = renewing(log, entry.stop);
    try {
      await log.write(...(await playing.play(log, signal)));
    } finally {
      stopRenewing();
    }
    if (log.state.isEnded) await limit.ended(request);
  }

  /**
   * Waits until no other process runs the request, then claims it. Returns false if it has ended, or this process
   * stops.
   */
  async function claimed(log: RequestLog, signal: AbortSignal): Promise<boolean> {
    let seen = { version: 0, since: 0 };
    for (;;) {
      await log.refresh();
      const { version, claim: other, isEnded } = log.state;
      if (isEnded || version === 0 || isStopped) return false;
      if (seen.version !== version) seen = { version, since: performance.now() };
      // Each process measures silence with its own clock. A claim by this process is from a failed attempt.
      if (other && !isOurs(log.state) && performance.now() - seen.since < other.lapsesAfter) {
        await delay(lookEvery, undefined, { signal }).catch(() => delay(lookEvery));
        continue;
      }
      if (await wrote(log, claim)) return true;
    }
  }

  /** Writes a heartbeat when nothing else was written, and checks for a cancellation. */
  function renewing(log: RequestLog, stop: AbortController): () => void {
    let before = -1;
    const look = (): void => {
      if (log.state.isCancelled) stop.abort();
    };
    const timer = setInterval(() => {
      const { version } = log.state;
      // A failed renewal is retried at the next tick.
      if (version === before) void log.write(claim).then(look, () => undefined);
      before = version;
      look();
    }, lease / 6).unref();
    return () => clearInterval(timer);
  }

  /** Writes a request's first entries. Returns false if another process has already written them. */
  async function begin(request: string, asked: RolloutRequest, digest: string): Promise<boolean> {
    const { tasks, rollouts } = await playing.begin(asked);
    const { request: _, ...rest } = asked;
    const log = openLog(request, isOurs);
    const first: Written = { type: "request", digest, run: randomUUID(), asked: rest, tasks };
    const isWritten = await wrote(log, first, { type: "begun", request, rollouts }, claim);
    if (isWritten) keep(request, log);
    return isWritten;
  }

  return {
    async start(asked) {
      const { request = randomUUID() } = asked;
      assertRequestId(request);
      const digest = digestRequest(asked);
      const readDigest = async (): Promise<string | undefined> => {
        const [first] = (await store.read(logName(environment, request), 0, 1)) ?? [];
        return first && (JSON.parse(first.body) as { digest: string }).digest;
      };
      let known = await readDigest();
      if (known === undefined) {
        if (isStopped) throw new HoldfastError("server_stopping", "the server is shutting down");
        if (await begin(request, asked, digest)) return request;
        known = await readDigest();
      }
      if (known === digest) return request;
      const message = `the request ${request} was started with a different body; send the same body, or choose another id`;
      throw new HoldfastError("call_conflict", message);
    },
    async lines(request, given = {}) {
      assertRequestId(request);
      await reading.startAfter(request, given.after ?? 0);
      return reading.lines(request, given);
    },
    list: reading.list,
    async cancel(request) {
      assertRequestId(request);
      const playedHere = active.get(request);
      if (!playedHere?.log || !(await wrote(playedHere.log, { type: "cancelled" }))) {
        const log = openLog(request, ({ isEnded }) => !isEnded);
        await log.refresh();
        if (log.state.version === 0) throw unknownRequest(request);
        if (log.state.isEnded || !(await wrote(log, { type: "cancelled" }))) return false;
      }
      playedHere?.stop.abort();
      // The process that runs the request ends its log. If that process is dead, this process ends the log after the
      // lease.
      keep(request);
      return true;
    },
    async delete(request) {
      assertRequestId(request);
      const log = openLog(request, () => false);
      await log.refresh();
      const { version, isEnded } = log.state;
      if (version === 0) throw unknownRequest(request);
      if (!isEnded || !(await store.delete(logName(environment, request), { version }))) return false;
      limit.deleted(request);
      return true;
    },
    async stop() {
      isStopped = true;
      const all = [...active.values()];
      for (const { stop } of all) stop.abort();
      await Promise.race([Promise.all(all.map(({ over }) => over)), delay(stopWithin, undefined, { ref: false })]);
    },
  };
}
