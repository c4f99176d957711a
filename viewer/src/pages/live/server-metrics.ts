// Computes the server's current rates from two readings of its metrics.
import type { Sample } from "../../data/metrics-text.ts";

/** The samples of /metrics at a time in milliseconds. */
export interface Reading {
  at: number;
  samples: Sample[];
}

/** null if unknown: in the first reading, or without samples. */
type Metric = number | null;

export interface EnvironmentMetrics {
  name: string;
  open: Metric;
  /** Calls per second. */
  calls: Metric;
  /** Calls per second with an outcome other than ok. */
  errors: Metric;
}

export interface ServerMetrics {
  at: number;
  environments: EnvironmentMetrics[];
  /** Commits per second, and conflicting commits per second. */
  commits: Metric;
  conflicts: Metric;
  /** Seconds per commit. */
  commitMean: Metric;
  commitP99: Metric;
  inflight: Metric;
  streams: Metric;
  lag: Metric;
  memory: Metric;
}

export function computeServerMetrics(now: Reading, before?: Reading): ServerMetrics {
  const since = before && !hasRestarted(before, now) ? growth(before, now) : undefined;
  const rate = (name: string, wanted?: (labels: Sample["labels"]) => boolean): Metric =>
    since ? total(since.samples, name, wanted) / since.seconds : null;
  const gauge = (name: string): Metric =>
    now.samples.find((sample) => sample.name === `holdfast_${name}`)?.value ?? null;
  const commits = since ? total(since.samples, "commit_seconds_count") : 0;
  return {
    at: now.at,
    environments: environmentNames(now).map((environment) => ({
      name: environment,
      open: openSessions(now.samples).get(environment) ?? null,
      calls: rate("calls_total", (labels) => labels["environment"] === environment),
      errors: rate("calls_total", (labels) => labels["environment"] === environment && labels["outcome"] !== "ok"),
    })),
    commits: rate("commit_seconds_count"),
    conflicts: rate("commit_conflicts_total"),
    commitMean: since && commits > 0 ? total(since.samples, "commit_seconds_sum") / commits : null,
    commitP99: since ? quantile(since.samples, "commit_seconds", 0.99) : null,
    inflight: gauge("requests_inflight"),
    streams: gauge("streams_open"),
    lag: gauge("event_loop_lag_seconds"),
    memory: gauge("process_resident_bytes"),
  };
}

/** The number of open sessions per environment. */
export function openSessions(samples: Sample[]): Map<string, number> {
  const found = samples.filter(({ name }) => name === "holdfast_sessions_open");
  return new Map(found.map(({ labels, value }) => [labels["environment"] ?? "", value]));
}

function environmentNames({ samples }: Reading): string[] {
  const counted = samples.filter(({ name }) => /^holdfast_(sessions_open|calls_total)$/.test(name));
  return [...new Set(counted.map(({ labels }) => labels["environment"] ?? ""))].sort();
}

const isCounted = ({ name }: Sample): boolean => /_(total|bucket|count|sum)$/.test(name);

function keyOf({ name, labels }: Sample): string {
  return JSON.stringify([name, ...Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))]);
}

/** Whether a counter shrank or disappeared: the process restarted, so the growth since then is unknown. */
function hasRestarted(before: Reading, now: Reading): boolean {
  const values = new Map(now.samples.map((sample) => [keyOf(sample), sample.value]));
  return before.samples.some((sample) => isCounted(sample) && (values.get(keyOf(sample)) ?? -1) < sample.value);
}

/** The growth of each counter. */
function growth(before: Reading, now: Reading): { seconds: number; samples: Sample[] } | undefined {
  const seconds = (now.at - before.at) / 1000;
  if (seconds <= 0) return undefined;
  const values = new Map(before.samples.map((sample) => [keyOf(sample), sample.value]));
  const counted = now.samples.filter(isCounted);
  const samples = counted.map((sample) => ({ ...sample, value: sample.value - (values.get(keyOf(sample)) ?? 0) }));
  return { seconds, samples };
}

function total(samples: Sample[], name: string, wanted: (labels: Sample["labels"]) => boolean = () => true): number {
  const found = samples.filter((sample) => sample.name === `holdfast_${name}` && wanted(sample.labels));
  return found.reduce((sum, { value }) => sum + value, 0);
}

/** Estimates a quantile of a histogram, assuming an even spread within each bucket. */
function quantile(samples: Sample[], name: string, part: number): Metric {
  const buckets = samples
    .filter((sample) => sample.name === `holdfast_${name}_bucket`)
    .map(({ labels, value }) => ({ most: labels["le"] === "+Inf" ? Infinity : Number(labels["le"]), value }))
    .sort((a, b) => a.most - b.most);
  const wanted = (buckets.at(-1)?.value ?? 0) * part;
  if (wanted === 0) return null;
  let [least, below] = [0, 0];
  for (const { most, value } of buckets) {
    if (value >= wanted)
      return most === Infinity ? least : least + ((most - least) * (wanted - below)) / (value - below);
    [least, below] = [most, value];
  }
  return least;
}
