// Prints training runs' metrics, grouped by a label on their rows.
import { readCurve } from "../../rollout/curve.ts";
import { metricNames, valueAt, type Curve, type CurvePoint } from "../../rollout/curve-series.ts";
import { counted, plainLine, print } from "../../io/plain.ts";
import { terminalWidth } from "../help.ts";
import { createComplaints, note } from "../notes.ts";
import { figure, tableLines } from "./table.ts";

export interface CurveFlags {
  json?: boolean;
  /** Also prints the trainer's other numbers, however wide the table is. */
  all?: boolean;
}

export async function printCurves(paths: string[], over: string, { json, all }: CurveFlags): Promise<void> {
  const curves: Curve[] = [];
  for (const path of paths) curves.push(await readCurve(path, over, createComplaints()));
  if (json) return void curves.forEach((curve) => print(JSON.stringify(curve)));
  for (const { path, points, unlabelled } of curves) {
    if (unlabelled > 0) note(`${counted(unlabelled, "row")} in ${path} without the label ${over}`);
    const head = paths.length > 1 ? [`${path}:`] : [];
    const { watched, others } = metricNames(points);
    const shown = all ? [...watched, ...others] : fitting(over, points, watched);
    const left = watched.slice(shown.length);
    if (left.length > 0) note(`the terminal is too narrow for ${left.join(", ")}; --all prints all columns`);
    print([...head, ...curveLines(over, points, shown)].join("\n"));
  }
}

/** Omits the last columns if the terminal is too narrow. */
function fitting(over: string, points: CurvePoint[], names: string[]): string[] {
  const width = terminalWidth() ?? Infinity;
  const isWide = names.length > 1 && curveLines(over, points, names).some(({ length }) => length > width);
  return isWide ? fitting(over, points, names.slice(0, -1)) : names;
}

function curveLines(over: string, points: CurvePoint[], names: string[]): string[] {
  const heading = [over, ...names.map((name) => name.replace(/^seconds\.(.+)$/, "$1 s"))];
  return tableLines([
    heading.map(plainLine),
    ...points.map((point) => [plainLine(point.at), ...names.map((name) => figure(valueAt(point, name)))]),
  ]);
}
