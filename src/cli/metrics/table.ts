// Tables in plain text: columns as wide as what is in them.

/** Lines with the cells of each column below each other; those of the first column on the left, the others on the right. */
export function tableLines(rows: string[][]): string[] {
  const widths: number[] = [];
  for (const row of rows) row.forEach((cell, at) => (widths[at] = Math.max(widths[at] ?? 0, cell.length)));
  return rows.map((row) =>
    row
      .map((cell, at) => (at === 0 ? cell.padEnd(widths[at] as number) : cell.padStart(widths[at] as number)))
      .join("  ")
      .trimEnd(),
  );
}

/** A number as a person reads it; `-` for none. */
export function figure(value: number | null): string {
  if (value === null) return "-";
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? String(value) : String(Number(value.toPrecision(4)));
}
