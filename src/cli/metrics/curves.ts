// Prints the metrics of training runs over a label of their rows.
import { readCurve } from "../../rollout/curve.ts";
import type { Curve, CurvePoint } from "../../rollout/curve-series.ts";
import { counted, plainLine, print } from "../plain.ts";
import { createComplaints, note } from "../rollout-source.ts";
import { figure, tableLines } from "./table.ts";

export async function printCurves(paths: string[], over: string, json: boolean): Promise<void> {
  const curves: Curve[] = [];
  for (const path of paths) curves.push(await readCurve(path, over, createComplaints()));
  if (json) return void curves.forEach((curve) => print(JSON.stringify(curve)));
  for (const { path, points, unlabelled } of curves) {
    if (unlabelled > 0) note(`${counted(unlabelled, "row")} of ${path} without the label ${over}`);
    const head = paths.length > 1 ? [`${path}:`] : [];
    print([...head, ...curveLines(over, points)].join("\n"));
  }
}

/** The fields of rows. A column without a value is left out. */
const columns: [string, (point: CurvePoint) => number | null][] = [
  ["reward", ({ reward }) => reward],
  ["rollouts", ({ rollouts }) => rollouts || null],
  ["failed", ({ rollouts, failed }) => (rollouts > 0 ? failed : null)],
  ["tokens", ({ tokens }) => tokens],
  ["seconds", ({ seconds }) => seconds],
];

function curveLines(over: string, points: CurvePoint[]): string[] {
  const own = new Set(columns.map(([name]) => name));
  const names = new Set(points.flatMap(({ trainer }) => Object.keys(trainer)));
  const trained = [...names].filter((name) => !own.has(name));
  const all: typeof columns = [
    ...columns,
    ...trained.map((name): (typeof columns)[0] => [name, ({ trainer }) => trainer[name] ?? null]),
  ];
  const shown = all.filter(([, valueOf]) => points.some((point) => valueOf(point) !== null));
  const heading = [over, ...shown.map(([name]) => name)].map(plainLine);
  return tableLines([
    heading,
    ...points.map((point) => [plainLine(point.at), ...shown.map(([, valueOf]) => figure(valueOf(point)))]),
  ]);
}
