// createMetrics(): keeps counters as plain numbers, and fills prom-client's registry when /metrics is read.
import { monitorEventLoopDelay, type IntervalHistogram } from "node:perf_hooks";
import { AggregatorRegistry, Counter, Gauge, Histogram, Registry } from "prom-client";
import type { AnyEnvironment } from "../core/environment.ts";
import { isHoldfastError } from "../core/errors.ts";
import type { Sessions } from "../core/sessions.ts";
import type { Commit, Store } from "../core/store.ts";

/** A histogram: samples per range of seconds. */
export interface Spread {
  counts: number[];
  sum: number;
}

/** One tool's counters. */
export interface ToolCounts {
  /** Number of calls by outcome: "ok" or an error code. */
  outcomes: Map<string, number>;
  seconds: Spread;
}

/** The model calls of one environment's harnesses. */
export interface ModelCounts extends ToolCounts {
  tokens: { input: number; output: number };
}

export interface Metrics {
  /** Number of requests being handled, and the maximum. */
  inflight: number;
  places: number;
  /** Requests whose body is still arriving. */
  arriving: number;
  /** Streams being sent. */
  streams: number;
  readonly requests: Map<number, number>;
  request(status: number): void;
  tool(environment: string, tool: string): ToolCounts;
  /** Harnesses' requests to models, by environment. */
  readonly models: Map<string, ModelCounts>;
  /** Opened sessions by environment. */
  readonly opened: Map<string, number>;
  /** Ended sessions by environment and reason. */
  readonly closed: Map<string, Map<string, number>>;
  /** Session cache hits and misses, by environment. */
  readonly caches: Map<string, Sessions["cache"]>;
  /** Counters of the store. */
  readonly store: StoreCounts;
  /** Returns the metrics as JSON, for another process to add to its own. */
  report(): Promise<MetricsReport>;
  /** Returns the metrics in Prometheus's text format, including other processes' reports. */
  text(others?: MetricsReport[]): Promise<string>;
  readonly contentType: string;
}

/** All of a process's metrics, as JSON. */
export type MetricsReport = object[];

export interface StoreCounts {
  commitSeconds: Spread;
  conflicts: number;
  duplicates: number;
  /** Bytes written in entries and snapshots. */
  bytes: number;
  /** Store failures by error code. */
  errors: Map<string, number>;
  /** Counts an environment's open sessions. */
  count?: (environment: string) => Promise<number>;
}

const bounds = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60];
const newSpread = (): Spread => ({ counts: Array.from({ length: bounds.length + 1 }, () => 0), sum: 0 });

function spread(into: Spread, seconds: number): void {
  let at = 0;
  while (at < bounds.length && seconds > (bounds[at] ?? 0)) at++;
  into.counts[at] = (into.counts[at] ?? 0) + 1;
  into.sum += seconds;
}

const add = <Key>(counts: Map<Key, number>, key: Key): unknown => counts.set(key, (counts.get(key) ?? 0) + 1);

function within<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}

/** Milliseconds between two samples of the event-loop delay. */
const resolution = 20;

export function createMetrics(): Metrics {
  const tools = new Map<string, Map<string, ToolCounts>>();
  const delays = monitorEventLoopDelay({ resolution });
  delays.enable();
  const registered = (): Promise<Registry> => buildRegistry(metrics, tools, delays);
  const metrics: Metrics = {
    inflight: 0,
    places: Infinity,
    arriving: 0,
    streams: 0,
    requests: new Map(),
    request: (status) => void add(metrics.requests, status),
    tool: (environment, tool) =>
      within(
        within(tools, environment, () => new Map<string, ToolCounts>()),
        tool,
        () => ({ outcomes: new Map(), seconds: newSpread() }),
      ),
    models: new Map(),
    opened: new Map(),
    closed: new Map(),
    caches: new Map(),
    store: { commitSeconds: newSpread(), conflicts: 0, duplicates: 0, bytes: 0, errors: new Map() },
    report: async () => (await registered()).getMetricsAsJSON(),
    async text(others = []) {
      const registry = await registered();
      if (others.length === 0) return registry.metrics();
      const own = await registry.getMetricsAsJSON();
      return AggregatorRegistry.aggregate([own, ...others]).metrics();
    },
    contentType: Registry.PROMETHEUS_CONTENT_TYPE,
  };
  return metrics;
}

type Labelled = [labels: Record<string, string>, value: number][];

async function buildRegistry(
  metrics: Metrics,
  tools: Map<string, Map<string, ToolCounts>>,
  delays: IntervalHistogram,
): Promise<Registry> {
  const registry = new Registry();
  const registers = [registry];
  const described = (name: string, help: string, values: Labelled) => ({
    name: `holdfast_${name}`,
    help,
    registers,
    labelNames: Object.keys(values[0]?.[0] ?? {}),
  });
  const counter = (name: string, help: string, values: Labelled): void => {
    // No samples yet, so the label names are unknown: skip.
    if (values.length === 0) return;
    const made = new Counter(described(name, help, values));
    for (const [labels, value] of values) made.inc(labels, value);
  };
  const gauge = (name: string, help: string, values: Labelled, aggregator: "sum" | "max" = "sum"): void => {
    if (values.length === 0) return;
    const made = new Gauge({ ...described(name, help, values), aggregator });
    for (const [labels, value] of values) made.set(labels, value);
  };
  const { store } = metrics;
  const everyTool = [...tools].flatMap(([environment, byTool]) =>
    [...byTool].map(([tool, counts]) => ({ environment, tool, counts })),
  );
  const environments = new Set([...tools.keys(), ...metrics.opened.keys(), ...metrics.closed.keys()]);
  const open = await Promise.all(
    [...environments].map(async (environment): Promise<Labelled[number][]> => {
      const count = await store.count?.(environment).catch(() => undefined);
      return count === undefined ? [] : [[{ environment }, count]];
    }),
  );

  // Processes that share a store report the same number, so "max" avoids adding them up.
  gauge("sessions_open", "Sessions in the store that have not ended.", open.flat(), "max");
  counter(
    "sessions_opened_total",
    "Sessions that this process opened.",
    [...metrics.opened].map(([environment, count]) => [{ environment }, count]),
  );
  counter(
    "sessions_closed_total",
    "Sessions that this process ended, by reason.",
    [...metrics.closed].flatMap(([environment, reasons]) =>
      [...reasons].map(([reason, count]): Labelled[number] => [{ environment, reason }, count]),
    ),
  );
  counter(
    "calls_total",
    "Calls by tool and outcome: ok, or the error code.",
    everyTool.flatMap(({ environment, tool, counts }) =>
      [...counts.outcomes].map(([outcome, count]): Labelled[number] => [{ environment, tool, outcome }, count]),
    ),
  );
  registry.registerMetric(
    new Spreads(
      "call_seconds",
      "Time from a call to its answer.",
      everyTool.map(({ environment, tool, counts }) => ({ labels: { environment, tool }, seconds: counts.seconds })),
    ),
  );
  counter(
    "model_calls_total",
    "Model calls of harnesses by outcome: ok, or the code of the error.",
    [...metrics.models].flatMap(([environment, counts]) =>
      [...counts.outcomes].map(([outcome, count]): Labelled[number] => [{ environment, outcome }, count]),
    ),
  );
  counter(
    "model_tokens_total",
    "Tokens of model calls by harnesses, by kind: input or output.",
    [...metrics.models].flatMap(([environment, { tokens }]): Labelled => [
      [{ environment, kind: "input" }, tokens.input],
      [{ environment, kind: "output" }, tokens.output],
    ]),
  );
  registry.registerMetric(
    new Spreads(
      "model_call_seconds",
      "Time from a model call of a harness to its answer.",
      [...metrics.models].map(([environment, { seconds }]) => ({ labels: { environment }, seconds })),
    ),
  );
  registry.registerMetric(
    new Spreads("commit_seconds", "Time that the store takes for a commit.", [
      { labels: {}, seconds: store.commitSeconds },
    ]),
  );
  counter("commit_conflicts_total", "Commits refused because another writer was faster.", [[{}, store.conflicts]]);
  counter("commit_duplicates_total", "Commits refused because their call id was already in the log.", [
    [{}, store.duplicates],
  ]);
  const cached = (count: "hits" | "misses"): Labelled =>
    [...metrics.caches].map(([environment, counts]) => [{ environment }, counts[count]]);
  counter(
    "cache_hits_total",
    "Sessions that were already in the memory cache when a request needed them.",
    cached("hits"),
  );
  counter("cache_misses_total", "Sessions read from the store because they were not in memory.", cached("misses"));
  counter("store_bytes_total", "Bytes of events and snapshots written.", [[{}, store.bytes]]);
  counter(
    "store_errors_total",
    "Store failures, by error code.",
    [...store.errors].map(([code, count]) => [{ code }, count]),
  );
  counter(
    "requests_total",
    "HTTP requests, by reply status.",
    [...metrics.requests].map(([status, count]) => [{ status: String(status) }, count]),
  );
  gauge("requests_inflight", "HTTP requests being served.", [[{}, metrics.inflight]]);
  gauge("requests_arriving", "HTTP requests whose body is still arriving.", [[{}, metrics.arriving]]);
  gauge("streams_open", "Open event streams.", [[{}, metrics.streams]]);
  gauge("process_resident_bytes", "Memory used by the process.", [[{}, process.memoryUsage.rss()]]);
  // The delay covers the time since the last read. The sampler measures from one timer tick to the next, so the
  // interval is subtracted.
  const lag = Math.max(0, delays.percentile(99) / 1e9 - resolution / 1000) || 0;
  delays.reset();
  gauge("event_loop_lag_seconds", "Event loop delay, 99th percentile.", [[{}, lag]], "max");
  return registry;
}

/** A histogram with counts from elsewhere. prom-client's own histogram accepts only one sample at a time. */
class Spreads extends Histogram {
  readonly #spreads: { labels: Record<string, string>; seconds: Spread }[];
  readonly #name: string;
  readonly #help: string;

  constructor(name: string, help: string, spreads: { labels: Record<string, string>; seconds: Spread }[]) {
    super({ name: `holdfast_${name}`, help, buckets: bounds, registers: [] });
    this.#spreads = spreads;
    this.#name = `holdfast_${name}`;
    this.#help = help;
  }

  // A registry calls this for its text, and `get` for its JSON.
  getForPromString(): Promise<unknown> {
    return this.get();
  }

  override get(): ReturnType<Histogram["get"]> {
    const values = this.#spreads.flatMap(({ labels, seconds }) => {
      let total = 0;
      const buckets = seconds.counts.map((count, at) => {
        total += count;
        const le = at < bounds.length ? String(bounds[at]) : "+Inf";
        return { metricName: `${this.#name}_bucket`, labels: { le, ...labels }, value: total };
      });
      return [
        ...buckets,
        { metricName: `${this.#name}_sum`, labels, value: seconds.sum },
        { metricName: `${this.#name}_count`, labels, value: total },
      ];
    });
    const about = { name: this.#name, help: this.#help, type: "histogram", aggregator: "sum" };
    return Promise.resolve({ ...about, values } as never);
  }
}

const errorCode = (thrown: unknown): string => (isHoldfastError(thrown) ? thrown.code : "internal");

/**
 * Wraps a store to time and count its commits. It counts every session that opens or ends, for any reason.
 */
export function observedStore(store: Store, metrics: Metrics): Store {
  const counts = metrics.store;
  counts.count = (environment) => store.count(environment);
  const failed = (thrown: unknown): never => {
    add(counts.errors, errorCode(thrown));
    throw thrown;
  };
  const committed = ({ version, entries, heading, snapshot }: Commit): void => {
    for (const { body } of entries) counts.bytes += Buffer.byteLength(body);
    if (snapshot) counts.bytes += Buffer.byteLength(snapshot.body);
    // The server's own logs are not sessions.
    if (!heading || heading.environment.startsWith("holdfast:")) return;
    const { environment, ended } = heading;
    if (version === 0) add(metrics.opened, environment);
    if (ended)
      add(
        within(metrics.closed, environment, () => new Map<string, number>()),
        ended,
      );
  };
  return {
    persistent: store.persistent,
    append(...commits) {
      const start = performance.now();
      return store.append(...commits).then((appended) => {
        spread(counts.commitSeconds, (performance.now() - start) / 1000);
        if (appended === "ok") for (const commit of commits) committed(commit);
        else if (appended === "conflict") counts.conflicts++;
        else counts.duplicates++;
        return appended;
      }, failed);
    },
    read: (...range) => store.read(...range).catch(failed),
    load: (...asked) => store.load(...asked).catch(failed),
    find: (...asked) => store.find(...asked).catch(failed),
    list: (filter) => store.list(filter),
    count: (environment) => store.count(environment).catch(failed),
    delete: (session, end) => store.delete(session, end).catch(failed),
    close: () => store.close(),
  };
}

/** Wraps sessions to time and count their calls. */
export function observedSessions<E extends AnyEnvironment>(sessions: Sessions<E>, metrics: Metrics): Sessions<E> {
  const { environment } = sessions;
  metrics.caches.set(environment.name, sessions.cache);
  const known = new Map(Object.keys(environment.tools).map((tool) => [tool, metrics.tool(environment.name, tool)]));
  // Unknown names share one counter. Otherwise, a model could invent names until the memory is full.
  const findCounts = (tool: string): ToolCounts => known.get(tool) ?? metrics.tool(environment.name, "unknown tool");
  const timed = (counts: ToolCounts): ((outcome: string) => void) => {
    const start = performance.now();
    return (outcome) => {
      add(counts.outcomes, outcome);
      spread(counts.seconds, (performance.now() - start) / 1000);
    };
  };
  const call: Sessions<E>["call"] = (session, tool, ...rest) => {
    const ended = timed(findCounts(tool));
    return sessions.call(session, tool, ...rest).then(
      (answer) => {
        ended(answer.ok ? "ok" : answer.error.code);
        return answer;
      },
      (thrown: unknown) => {
        ended(errorCode(thrown));
        throw thrown;
      },
    );
  };
  const askModel: Sessions<E>["askModel"] = async (session, request, options) => {
    const counts = within(metrics.models, environment.name, () => {
      return { outcomes: new Map<string, number>(), seconds: newSpread(), tokens: { input: 0, output: 0 } };
    });
    const ended = timed(counts);
    try {
      const answer = await sessions.askModel(session, request, options);
      ended("ok");
      const { usage } = answer.response;
      if (usage && !answer.repeated) {
        counts.tokens.input += usage.input_tokens;
        counts.tokens.output += usage.output_tokens;
      }
      return answer;
    } catch (thrown) {
      ended(errorCode(thrown));
      throw thrown;
    }
  };
  return { ...sessions, call, askModel };
}
