// What a server is doing, from two readings of what it has counted.
import type { Sample } from "../../data/metrics-text.ts";

/** What /metrics said at a time, in milliseconds. */
export interface Reading {
  at: number;
  samples: Sample[];
}

/** null: not known, as in the first reading, or because there was nothing to measure. */
type Figure = number | null;

export interface EnvironmentFigures {
  name: string;
  open: Figure;
  /** Per second. */
  calls: Figure;
  /** Per second: those that were not answered with ok. */
  errors: Figure;
}

export interface Figures {
  at: number;
  environments: EnvironmentFigures[];
  /** Commits per second, and those that came too late. */
  commits: Figure;
  conflicts: Figure;
  /** Seconds that a commit took. */
  commitMean: Figure;
  commitP99: Figure;
  inflight: Figure;
  streams: Figure;
  lag: Figure;
  memory: Figure;
}

export function figuresOf(now: Reading, before?: Reading): Figures {
  const since = before && !hasRestarted(before, now) ? growth(before, now) : undefined;
  const rate = (name: string, wanted?: (labels: Sample["labels"]) => boolean): Figure =>
    since ? total(since.samples, name, wanted) / since.seconds : null;
  const gauge = (name: string): Figure =>
    now.samples.find((sample) => sample.name === `holdfast_${name}`)?.value ?? null;
  const commits = since ? total(since.samples, "commit_seconds_count") : 0;
  return {
    at: now.at,
    environments: environmentsIn(now).map((environment) => ({
      name: environment,
      open: openIn(now.samples).get(environment) ?? null,
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

/** How many sessions are open, by environment. */
export function openIn(samples: Sample[]): Map<string, number> {
  const found = samples.filter(({ name }) => name === "holdfast_sessions_open");
  return new Map(found.map(({ labels, value }) => [labels["environment"] ?? "", value]));
}

function environmentsIn({ samples }: Reading): string[] {
  const counted = samples.filter(({ name }) => /^holdfast_(sessions_open|calls_total)$/.test(name));
  return [...new Set(counted.map(({ labels }) => labels["environment"] ?? ""))].sort();
}

const isCounted = ({ name }: Sample): boolean => /_(total|bucket|count|sum)$/.test(name);

function keyOf({ name, labels }: Sample): string {
  return JSON.stringify([name, ...Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))]);
}

/** Whether a count has become smaller or has gone: a process began anew, and how much there was since is not known. */
function hasRestarted(before: Reading, now: Reading): boolean {
  const values = new Map(now.samples.map((sample) => [keyOf(sample), sample.value]));
  return before.samples.some((sample) => isCounted(sample) && (values.get(keyOf(sample)) ?? -1) < sample.value);
}

/** By how much each count has grown. */
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

/** The value that so many of the samples of a histogram are below, as if they were spread evenly in their range. */
function quantile(samples: Sample[], name: string, part: number): Figure {
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
