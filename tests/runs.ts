// The number of runs of a property: few by default, so that the tests stay fast. `npm test -- --runs=20` runs 20 times
// as many.

/** The number of runs for a property whose default is `count`. */
export function runs(count: number): number {
  return Math.max(1, Math.round(count * Number(process.env["HOLDFAST_RUNS"] ?? 1)));
}
