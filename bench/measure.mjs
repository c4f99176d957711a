// Measures on a noisy machine: variants take turns in many short rounds, and it is their medians that are compared.

/**
 * One way of doing something. `run` does it some number of times and gives that number; `prepare` is not measured.
 * `kind` tells samples apart that cost differently for a known reason, such as how many snapshots fell into them.
 *
 * @typedef {{ prepare?: () => unknown, run: () => number | Promise<number>, kind?: () => number }} Variant
 */

/**
 * The measurement of a variant: microseconds for one operation, the quartiles around it, the sum of the kinds.
 * `costs` has all samples in the order of the rounds.
 *
 * @typedef {{ cost: number, low: number, high: number, kinds: number, costs: number[] }} Measured
 */

/** Collects garbage now, so that nobody pays for what others left. A whole collection takes long on a large heap. */
export function collect(whole = true) {
  if (typeof globalThis.gc !== "function") throw new Error("the bench needs node --expose-gc");
  if (whole) globalThis.gc();
  else globalThis.gc({ type: "minor" });
}

/**
 * Measures variants side by side: every round takes one sample of each, in a random order. Some costs come at regular
 * intervals (SQLite checkpoints its journal), and would otherwise always hit the same variant.
 *
 * @template {string} Name
 * @param {Record<Name, Variant>} variants
 * @param {{ rounds: number, warmup?: number }} options
 * @returns {Promise<Record<Name, Measured>>}
 */
export async function interleave(variants, { rounds, warmup = Math.ceil(rounds / 10) }) {
  const named = /** @type {[Name, Variant][]} */ (Object.entries(variants));
  const samples = new Map(named.map(([name]) => [name, /** @type {{ cost: number, kind: number }[]} */ ([])]));
  collect();
  for (let round = -warmup; round < rounds; round++) {
    collect(false);
    for (const [name, variant] of shuffled(named)) {
      await variant.prepare?.();
      variant.kind?.();
      const start = performance.now();
      const count = await variant.run();
      const cost = ((performance.now() - start) * 1000) / count;
      if (!(count > 0)) throw new Error(`${name} did nothing`);
      if (round >= 0) samples.get(name)?.push({ cost, kind: variant.kind?.() ?? 0 });
    }
  }
  const measured = named.map(([name]) => [name, summary(samples.get(name) ?? [])]);
  return Object.fromEntries(measured);
}

/**
 * The typical cost. Samples of one kind are represented by their median, and the kinds weighed by how often they came:
 * so a snapshot that falls into one sample of three hundred is charged in full, and a hiccup of the machine is not.
 *
 * @param {{ cost: number, kind: number }[]} samples
 * @returns {Measured}
 */
function summary(samples) {
  const costs = samples.map(({ cost }) => cost);
  let cost = 0;
  for (const kind of new Set(samples.map(({ kind }) => kind))) {
    const alike = samples.filter((sample) => sample.kind === kind).map(({ cost }) => cost);
    cost += (quantile(alike, 0.5) * alike.length) / samples.length;
  }
  const kinds = samples.reduce((sum, { kind }) => sum + kind, 0);
  return { cost, low: quantile(costs, 0.25), high: quantile(costs, 0.75), kinds, costs };
}

/**
 * The ratio of two variants, as the median of the ratios of single rounds. The speed of the machine changes over time.
 * Within a round both variants see the same speed, while medians over all rounds may not.
 *
 * @param {Measured} measured
 * @param {Measured} reference
 */
export function pairedRatio(measured, reference) {
  const ratios = measured.costs.map((cost, round) => cost / (reference.costs[round] ?? Number.NaN));
  return quantile(ratios, 0.5);
}

/** @template T @param {T[]} items */
export function shuffled(items) {
  const result = [...items];
  for (let last = result.length - 1; last > 0; last--) {
    const other = Math.floor(Math.random() * (last + 1));
    const moved = /** @type {T} */ (result[last]);
    result[last] = /** @type {T} */ (result[other]);
    result[other] = moved;
  }
  return result;
}

/** @param {number[]} values @param {number} share */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  const place = (sorted.length - 1) * share;
  const below = sorted[Math.floor(place)] ?? Number.NaN;
  const above = sorted[Math.ceil(place)] ?? Number.NaN;
  return below + (above - below) * (place - Math.floor(place));
}
