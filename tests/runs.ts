// How often a property is tried: few times by default, so that the tests stay quick. `npm test -- --runs=20` tries 20 times as often.

/** The number of runs for a property whose default is `count`. */
export function runs(count: number): number {
  return Math.max(1, Math.round(count * Number(process.env["HOLDFAST_RUNS"] ?? 1)));
}
