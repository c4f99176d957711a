// A range of numbers in the address: "0.5..1", "0.5..<1" without the upper bound, "..1", "0.5.." or a single "1".

export interface Range {
  from: number;
  to: number;
  /** Excludes `to`. */
  isOpen: boolean;
}

export function readRange(text: string | null | undefined): Range | undefined {
  const [, low = "", dots, open, high = ""] = /^([^.<]*(?:\.[^.<]+)?)(?:(\.\.)(<?)(.*))?$/.exec(text ?? "") ?? [];
  if (dots === undefined) {
    const value = numberIn(low);
    return value === undefined ? undefined : { from: value, to: value, isOpen: false };
  }
  const [from, to] = [numberIn(low), numberIn(high)];
  if (from === undefined && to === undefined) return undefined;
  return { from: from ?? -Infinity, to: to ?? Infinity, isOpen: open === "<" };
}

/** undefined for an unbounded range, which needs no filter. */
export function rangeText({ from, to, isOpen }: Range): string | undefined {
  if (from === to && !isOpen) return String(from);
  const [low, high] = [from, to].map((end) => (Number.isFinite(end) ? String(end) : ""));
  return low === "" && high === "" ? undefined : `${low}..${isOpen ? "<" : ""}${high}`;
}

/**
 * The range of a histogram bar. Only the last bar includes its upper bound, so that the filter selects exactly its
 * rows.
 */
export const barRange = ({ from, to }: { from: number; to: number }, isLast: boolean): Range => ({
  from,
  to,
  isOpen: from !== to && !isLast,
});

/** A missing number is in no range. */
export function holds({ from, to, isOpen }: Range, value: number | null | undefined): boolean {
  return typeof value === "number" && value >= from && (isOpen ? value < to : value <= to);
}

/** Whether a part of a chart overlaps the range. */
export function overlaps(range: Range, part: Range): boolean {
  const [low, high] = [Math.max(range.from, part.from), Math.min(range.to, part.to)];
  return low < high || (low === high && holds(range, low) && holds(part, low));
}

function numberIn(text: string): number | undefined {
  const value = text.trim() === "" ? NaN : Number(text);
  return Number.isFinite(value) ? value : undefined;
}
