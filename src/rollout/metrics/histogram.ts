// Histograms, as data and as lines for a terminal.

export interface Bin {
  from: number;
  /** The upper bound. It equals `from` for a bin with a single value; otherwise only the last bin includes it. */
  to: number;
  count: number;
}

const mostBins = 10;
const [narrowest, widest] = [20, 1_000];
const eighths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/**
 * Returns at most ten bins: one per value if there are at most ten different values, otherwise ten bins of equal width.
 * Values that are not finite are ignored.
 */
export function histogram(values: Iterable<number>): Bin[] {
  const counts = new Map<number, number>();
  // `|| 0`: JSON has no -0.
  for (const value of values) if (Number.isFinite(value)) counts.set(value || 0, (counts.get(value) ?? 0) + 1);
  const sorted = [...counts].sort(([a], [b]) => a - b);
  if (sorted.length <= mostBins) return sorted.map(([value, count]) => ({ from: value, to: value, count }));
  return equalBins(sorted);
}

function equalBins(counts: [value: number, count: number][]): Bin[] {
  const [low = 0, high = 0] = [counts[0]?.[0], counts.at(-1)?.[0]];
  // Does not use low + width * at, because the width can overflow.
  const edge = (at: number): number => low * (1 - at / mostBins) + high * (at / mostBins);
  const bins = Array.from({ length: mostBins }, (_, at) => ({ from: edge(at), to: edge(at + 1), count: 0 }));
  for (const [value, count] of counts) bins.findLast(({ from }) => value >= from)!.count += count;
  return bins;
}

/** Returns a line per bin: its range, a bar and its count, together at most `width` columns wide (20 at least). */
export function binLines(bins: Bin[], width: number): string[] {
  const labels = bins.map(toLabel);
  const counts = bins.map(({ count }) => String(count));
  const labelWidth = maxLength(labels);
  const room = Math.min(widest, Math.max(narrowest, Math.floor(width) || 0)) - labelWidth - maxLength(counts) - 2;
  const full = Math.max(1, room);
  const most = bins.reduce((most, { count }) => Math.max(most, count), 1);
  return bins.map(({ count }, at) => {
    const bar = drawBar((count / most) * full, count > 0).padEnd(full);
    return `${(labels[at] as string).padStart(labelWidth)} ${bar} ${(counts[at] as string).padStart(maxLength(counts))}`;
  });
}

function toLabel({ from, to }: Bin): string {
  return from === to ? short(from) : `${short(from)} to ${short(to)}`;
}

const short = (value: number): string => String(Number(value.toPrecision(4)));
const maxLength = (texts: string[]): number => texts.reduce((longest, { length }) => Math.max(longest, length), 0);

/** Draws a bar. A count above 0 has at least the thinnest bar. */
function drawBar(columns: number, some: boolean): string {
  const parts = Math.max(some ? 1 : 0, Math.round(columns * 8));
  return "█".repeat(parts >> 3) + (eighths[parts & 7] as string);
}
