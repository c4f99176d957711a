// readCurve(): reads the metrics in a folder, grouped by a label on its rows, such as a training run's iteration.
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { cannotLoad } from "../core/errors.ts";
import { isObject, type Json } from "../core/json.ts";
import { labelsField, type TaskRow } from "../core/rollout.ts";
import type { Curve, CurvePoint } from "./curve-series.ts";
import { finishedRollouts } from "./finished.ts";
import { outputPaths } from "./output.ts";
import { readReward } from "./row-fields.ts";
import { readRows, type OnBad } from "./tasks.ts";

type Summed = CurvePoint & { sum: number };

/** The file to which a trainer writes one JSON object per iteration. */
const trainerFile = "metrics.jsonl";

export const isTraining = (folder: string): boolean => existsSync(join(folder, trainerFile));

/**
 * Reads a folder of collections, or one rows file. The label "collection" means the file name.
 *
 * @example
 * const { points } = await readCurve("runs/counter", "iteration", console.error);
 */
export async function readCurve(path: string, over: string, onBad: OnBad): Promise<Curve> {
  await assertNoTrainerFile(path);
  const curve = await readPoints(path, over, onBad);
  const { points, unlabelled } = curve;
  const others = unlabelled > 0 ? `; ${unlabelled} rows do not have this label` : "";
  const lines = isTraining(path) ? `; no line of its ${trainerFile} has this field` : "";
  if (points.length === 0) throw cannotLoad(`${path} has no rows with the label ${over}${others}${lines}`);
  return curve;
}

/** Refuses a trainer's metrics file. It looks like a rollout file, because its lines have a reward. */
export async function assertNoTrainerFile(file: string): Promise<void> {
  const folder = dirname(file);
  if (basename(file) !== trainerFile || !isTraining(folder)) return;
  for await (const read of readRows(file)) {
    if (!("row" in read)) continue;
    if (typeof read.row["iteration"] !== "number" || "response" in read.row) return;
    const commands = `npx holdfast metrics ${folder} --over iteration, or npx holdfast view ${folder}`;
    throw cannotLoad(`${file} is a trainer's metrics file, not a rollout file; to read it: ${commands}`);
  }
}

/** Like `readCurve`, but accepts an empty folder, because a trainer that has just started has written nothing yet. */
export async function readPoints(path: string, over: string, onBad: OnBad): Promise<Curve> {
  if (!existsSync(path)) throw cannotLoad(`${path} does not exist`);
  const isFolder = statSync(path).isDirectory();
  const points = new Map<string, Summed>();
  const pointAt = (at: string): Summed => {
    const known = points.get(at) ?? { ...emptyPoint(at), sum: 0 };
    points.set(at, known);
    return known;
  };
  let unlabelled = 0;
  for (const file of isFolder ? rowFiles(path) : [path]) {
    for await (const { row } of finishedRollouts(file, onBad)) {
      // A trainer may keep other files in the folder.
      if (!isRollout(row)) continue;
      const at = over === "collection" ? basename(file, ".jsonl") : labelOf(row, over);
      if (at === undefined) unlabelled++;
      else addRow(pointAt(at), row);
    }
  }
  const trained = isFolder ? join(path, trainerFile) : undefined;
  if (trained !== undefined && existsSync(trained)) {
    for await (const read of readRows(trained)) {
      const at = "row" in read ? toValue(read.row[over]) : undefined;
      if (!("row" in read)) onBad(read, trained);
      else if (at !== undefined) addTrained(pointAt(at), read.row, over);
    }
  }
  const sorted = [...points.values()].sort((a, b) => a.at.localeCompare(b.at, "en", { numeric: true }));
  return { path, over, points: sorted.map(withoutSum), unlabelled };
}

function withoutSum(point: Summed): CurvePoint {
  const { sum: _, ...rest } = point;
  return rest;
}

const isRollout = (row: TaskRow): boolean => ["reward", "response", "failure_kind"].some((field) => field in row);

const emptyPoint = (at: string): CurvePoint => ({
  at,
  rollouts: null,
  failed: null,
  reward: null,
  tokens: null,
  seconds: null,
  trainer: {},
});

function addRow(point: Summed, row: TaskRow): void {
  const { seconds, response } = row;
  const reward = readReward(row);
  point.rollouts = (point.rollouts ?? 0) + 1;
  point.failed = (point.failed ?? 0) + (reward === undefined ? 1 : 0);
  point.sum += reward ?? 0;
  const scored = point.rollouts - point.failed;
  point.reward = scored > 0 ? point.sum / scored : null;
  if (typeof seconds === "number") point.seconds = (point.seconds ?? 0) + seconds;
  const usage = isObject(response) ? response["usage"] : undefined;
  const tokens = isObject(usage) ? usage["total_tokens"] : undefined;
  if (typeof tokens === "number") point.tokens = (point.tokens ?? 0) + tokens;
}

function addTrained(point: CurvePoint, line: TaskRow, over: string): void {
  for (const [name, value] of numbersIn(line)) if (name !== over) point.trainer[name] = value;
  if (point.rollouts === null) point.reward = point.trainer["reward"] ?? null;
}

function numbersIn(fields: { [name: string]: Json }, prefix = ""): [string, number][] {
  return Object.entries(fields).flatMap(([name, value]): [string, number][] => {
    if (typeof value === "number") return [[prefix + name, value]];
    return isObject(value) ? numbersIn(value, `${prefix}${name}.`) : [];
  });
}

function labelOf(row: TaskRow, name: string): string | undefined {
  const labels = row[labelsField];
  return isObject(labels) ? toValue(labels[name]) : undefined;
}

const toValue = (value: Json | undefined): string | undefined =>
  typeof value === "string" || typeof value === "number" ? String(value) : undefined;

/** Returns the rows files in a folder, without the inputs and failures files of collections. */
function rowFiles(folder: string): string[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(".jsonl") && name !== trainerFile);
  const beside = new Set(
    files.flatMap((name) => {
      const { inputs, failures } = outputPaths(name);
      return [inputs, failures];
    }),
  );
  return files
    .filter((name) => !beside.has(name))
    .sort()
    .map((name) => join(folder, name));
}
