// Prints training runs' metrics, grouped by a label on their rows.
import { readCurve } from "../../rollout/curve.ts";
import type { Curve, CurvePoint } from "../../rollout/curve-series.ts";
import { counted, plainLine, print } from "../../io/plain.ts";
import { createComplaints, note } from "../notes.ts";
import { figure, tableLines } from "./table.ts";

export interface CurveFlags {
  json?: boolean;
  /** Also prints the trainer's other numbers, in addition to its loss and its seconds. */
  all?: boolean;
}

export async function printCurves(paths: string[], over: string, { json, all }: CurveFlags): Promise<void> {
  const curves: Curve[] = [];
  for (const path of paths) curves.push(await readCurve(path, over, createComplaints()));
  if (json) return void curves.forEach((curve) => print(JSON.stringify(curve)));
  for (const { path, points, unlabelled } of curves) {
    if (unlabelled > 0) note(`${counted(unlabelled, "row")} in ${path} without the label ${over}`);
    const head = paths.length > 1 ? [`${path}:`] : [];
    print([...head, ...curveLines(over, points, all ?? false)].join("\n"));
  }
}

/** The columns computed from rollouts. A column in which every value is null is omitted. */
const columns: [string, (point: CurvePoint) => number | null][] = [
  ["reward", ({ reward }) => reward],
  ["rollouts", ({ rollouts }) => rollouts || null],
  ["failed", ({ rollouts, failed }) => (rollouts > 0 ? failed : null)],
  ["tokens", ({ tokens }) => tokens],
  ["seconds", ({ seconds }) => seconds],
];

const isSeconds = /^seconds\.(.+)$/;

function curveLines(over: string, points: CurvePoint[], isWhole: boolean): string[] {
  const own = new Set(columns.map(([name]) => name));
  const names = new Set(points.flatMap(({ trainer }) => Object.keys(trainer)));
  const trained = [...names].filter((name) => !own.has(name) && (isWhole || name === "loss" || isSeconds.test(name)));
  const known: typeof columns = [
    ...columns,
    ...trained.map((name): (typeof columns)[0] => [
      name.replace(isSeconds, "$1 s"),
      ({ trainer }) => trainer[name] ?? null,
    ]),
  ];
  const shown = known.filter(([, valueOf]) => points.some((point) => valueOf(point) !== null));
  const heading = [over, ...shown.map(([name]) => name)].map(plainLine);
  return tableLines([
    heading,
    ...points.map((point) => [plainLine(point.at), ...shown.map(([, valueOf]) => figure(valueOf(point)))]),
  ]);
}
