// A range of numbers as the address has it: "0.5..1", "0.5..<1" without the upper end, "..1", "0.5.." or "1" alone.

export interface Range {
  from: number;
  to: number;
  /** Without `to` itself. */
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

/** undefined for everything, which needs no filter. */
export function rangeText({ from, to, isOpen }: Range): string | undefined {
  if (from === to && !isOpen) return String(from);
  const [low, high] = [from, to].map((end) => (Number.isFinite(end) ? String(end) : ""));
  return low === "" && high === "" ? undefined : `${low}..${isOpen ? "<" : ""}${high}`;
}

/** Of a bar of a histogram, so that its rows are as many as it says: only the last bar holds its upper end. */
export const barRange = ({ from, to }: { from: number; to: number }, isLast: boolean): Range => ({
  from,
  to,
  isOpen: from !== to && !isLast,
});

/** What is no number is in no range. */
export function holds({ from, to, isOpen }: Range, value: number | null | undefined): boolean {
  return typeof value === "number" && value >= from && (isOpen ? value < to : value <= to);
}

/** Whether a part of a chart, from end to end, has anything of the range. */
export function overlaps(range: Range, part: Range): boolean {
  const [low, high] = [Math.max(range.from, part.from), Math.min(range.to, part.to)];
  return low < high || (low === high && holds(range, low) && holds(part, low));
}

function numberIn(text: string): number | undefined {
  const value = text.trim() === "" ? NaN : Number(text);
  return Number.isFinite(value) ? value : undefined;
}
