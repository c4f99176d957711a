// Rows of a result, as every bench returns them, and how they are printed.
import { pairedRatio } from "./measure.mjs";

/**
 * @typedef {{ atMost: number } | { atLeast: number }} Bar
 * @typedef {{
 *   what: string, value: number, unit: string, low?: number, high?: number,
 *   ratio?: number, to?: string, bar?: Bar, met?: boolean,
 * }} Row
 * @typedef {{ rows: Row[], notes?: string[] }} Result
 * @typedef {{ quick: boolean, progress: (what: string) => void }} Options
 */

/**
 * A row for a measurement, with its ratio to a reference of the same run.
 *
 * @param {string} what
 * @param {import("./measure.mjs").Measured} measured
 * @param {{ to?: string, reference?: import("./measure.mjs").Measured, bar?: Bar }} [compared]
 * @returns {Row}
 */
export function costRow(what, measured, { to, reference, bar } = {}) {
  const { cost, low, high } = measured;
  const row = { what, value: cost, unit: "µs", low, high };
  return reference && to !== undefined ? judged({ ...row, ratio: cost / reference.cost, to }, bar) : row;
}

/** The same, with the ratio from round to round. @type {typeof costRow} */
export function pairedRow(what, measured, { to, reference, bar } = {}) {
  const row = costRow(what, measured);
  return reference && to !== undefined ? judged({ ...row, ratio: pairedRatio(measured, reference), to }, bar) : row;
}

/** The same as a rate. @type {typeof costRow} */
export function rateRow(what, measured, { to, reference, bar } = {}) {
  const { cost, low, high } = measured;
  const row = { what, value: 1e6 / cost, unit: "calls/s", low: 1e6 / high, high: 1e6 / low };
  return reference && to !== undefined ? judged({ ...row, ratio: reference.cost / cost, to }, bar) : row;
}

/** A row with its bar. The bar is about the ratio, or about the value where there is none. @param {Row} row @param {Bar} [bar] */
export function judged(row, bar) {
  if (!bar) return row;
  const figure = row.ratio ?? row.value;
  return { ...row, bar, met: "atMost" in bar ? figure <= bar.atMost : figure >= bar.atLeast };
}

/** @param {Row[]} rows */
export function printed(rows) {
  const cells = rows.map(({ what, value, unit, low, high, ratio, to, bar, met }) => [
    what,
    `${number(value)} ${unit}`,
    low === undefined || high === undefined ? "" : `${number(low)} to ${number(high)}`,
    ratio === undefined ? "" : `${number(ratio)}x`,
    to ?? "",
    bar === undefined ? "" : "atMost" in bar ? `at most ${bar.atMost}` : `at least ${bar.atLeast}`,
    met === undefined ? "" : met ? "yes" : "NO",
  ]);
  const lines = [["what", "median", "quartiles", "ratio", "to", "bar", "met"], ...cells];
  const widths = lines[0]?.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0))) ?? [];
  const texts = new Set([0, 4, 5, 6]);
  return lines
    .map((line) =>
      line
        .map((cell, column) => {
          const width = widths[column] ?? 0;
          return texts.has(column) ? cell.padEnd(width) : cell.padStart(width);
        })
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** @param {number} value */
function number(value) {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en");
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}
