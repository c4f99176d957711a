// From values to places on a chart, and the round numbers beside an axis.

/** A straight line from the ends of `values` to the ends of `places`; where all values are one, the middle. */
export function scale(values: readonly [number, number], places: readonly [number, number]): (value: number) => number {
  const [low, high] = values;
  const [from, to] = places;
  if (!(high > low)) return () => (from + to) / 2;
  // Halves, as the width of everything can be more than a number can be.
  return (value) => from + (to - from) * ((value / 2 - low / 2) / (high / 2 - low / 2));
}

/** Round numbers from `low` to `high`, about `wanted` of them. */
export function ticks(low: number, high: number, wanted = 4): number[] {
  if (!(high > low) || !Number.isFinite(high - low)) return [low];
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999) ?? 10);
  if (!(step > 0)) return [low];
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  // Not first + step again and again: 0.1 + 0.2 is no round number. `|| 0`: nobody reads -0.
  return Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)) || 0);
}
