// Formats tables in plain text: columns as wide as their widest cell.

/** Returns a line per row. The first column is aligned to the left, the others to the right. */
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

/** Formats a number for people; `-` for null. */
export function figure(value: number | null): string {
  if (value === null) return "-";
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? String(value) : String(Number(value.toPrecision(4)));
}
