// Maps values to positions on a chart and picks round numbers for an axis.

/** Maps `values` linearly to `places`. If both ends of `values` are equal, the result is the middle. */
export function scale(values: readonly [number, number], places: readonly [number, number]): (value: number) => number {
  const [low, high] = values;
  const [from, to] = places;
  if (!(high > low)) return () => (from + to) / 2;
  // Halved first, because `high - low` may overflow.
  return (value) => from + (to - from) * ((value / 2 - low / 2) / (high / 2 - low / 2));
}

/** Returns about `wanted` round numbers from `low` to `high`. */
export function ticks(low: number, high: number, wanted = 4): number[] {
  if (!(high > low) || !Number.isFinite(high - low)) return [low];
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999) ?? 10);
  if (!(step > 0)) return [low];
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  // Repeated addition would accumulate errors such as 0.1 + 0.2. `|| 0` turns -0 into 0.
  return Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)) || 0);
}
