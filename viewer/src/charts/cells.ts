// Groups rows by two numbers into a grid of cells and counts the rows of each cell.

export interface Cell {
  /** Lower and upper bound. Only the last cell includes its upper bound. */
  x: readonly [number, number];
  y: readonly [number, number];
  isLastX: boolean;
  isLastY: boolean;
  /** The mean of the cell's pairs: the centre of its bubble. */
  middle: readonly [number, number];
  count: number;
  /** The number of the cell's pairs that are in the selection; without a selection, the number of all its pairs. */
  selected: number;
}

export interface CellRange {
  from: number;
  to: number;
  /** Excludes `to`. */
  isOpen: boolean;
}

export interface Cells {
  cells: Cell[];
  x: readonly [number, number];
  y: readonly [number, number];
}

/**
 * Returns the cells that are not empty. Ignores pairs with a number that is not finite. `selection` holds indexes of
 * pairs.
 */
export function groupIntoCells(
  pairs: Float64Array,
  columns: number,
  lines: number,
  selection?: Uint32Array,
): Cells | undefined {
  const [x, y] = [bounds(pairs, 0), bounds(pairs, 1)];
  if (!x || !y) return undefined;
  const counts = new Uint32Array(columns * lines);
  const selected = selection ? new Uint32Array(columns * lines) : counts;
  const sums = new Float64Array(columns * lines * 2);
  const cellOf = (pair: number): number | undefined => {
    const [a, b] = [pairs[pair * 2] as number, pairs[pair * 2 + 1] as number];
    if (!Number.isFinite(a) || !Number.isFinite(b)) return undefined;
    return cellIndex(b, y, lines) * columns + cellIndex(a, x, columns);
  };
  for (const pair of selection ?? []) {
    const cell = cellOf(pair);
    if (cell !== undefined) selected[cell] = (selected[cell] as number) + 1;
  }
  for (let pair = 0; pair * 2 + 1 < pairs.length; pair++) {
    const [a, b] = [pairs[pair * 2] as number, pairs[pair * 2 + 1] as number];
    const cell = cellOf(pair);
    if (cell === undefined) continue;
    counts[cell] = (counts[cell] as number) + 1;
    sums[cell * 2] = (sums[cell * 2] as number) + a;
    sums[cell * 2 + 1] = (sums[cell * 2 + 1] as number) + b;
  }
  const cells: Cell[] = [];
  counts.forEach((count, at) => {
    if (count === 0) return;
    const [column, line] = [at % columns, Math.floor(at / columns)];
    cells.push({
      x: [edge(column, x, columns), edge(column + 1, x, columns)],
      y: [edge(line, y, lines), edge(line + 1, y, lines)],
      isLastX: column === columns - 1,
      isLastY: line === lines - 1,
      middle: [(sums[at * 2] as number) / count, (sums[at * 2 + 1] as number) / count],
      count,
      selected: selected[at] as number,
    });
  });
  return { cells, x, y };
}

/** The two filter ranges that select exactly the rows of a cell. */
export const cellRanges = ({ x, y, isLastX, isLastY }: Cell): [CellRange, CellRange] => [
  { from: x[0], to: x[1], isOpen: !isLastX },
  { from: y[0], to: y[1], isOpen: !isLastY },
];

/** Smallest and largest value, over the pairs in which both numbers are finite. */
function bounds(pairs: Float64Array, which: 0 | 1): readonly [number, number] | undefined {
  let [low, high] = [Infinity, -Infinity];
  for (let at = 0; at + 1 < pairs.length; at += 2) {
    if (!Number.isFinite(pairs[at]) || !Number.isFinite(pairs[at + 1])) continue;
    const value = pairs[at + which] as number;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : undefined;
}

const edge = (at: number, [low, high]: readonly [number, number], of: number): number =>
  at === of ? high : low * (1 - at / of) + high * (at / of);

/**
 * Finds the cell of a value. Division alone may be off by rounding, so the result is corrected by the cell's edges.
 * A filter from edge to edge then selects exactly the counted rows.
 */
function cellIndex(value: number, [low, high]: readonly [number, number], of: number): number {
  let at = high > low ? Math.min(of - 1, Math.floor(((value / 2 - low / 2) / (high / 2 - low / 2)) * of)) : of - 1;
  while (at > 0 && value < edge(at, [low, high], of)) at--;
  while (at < of - 1 && value >= edge(at + 1, [low, high], of)) at++;
  return at;
}
