// The size of attacks: a tenth by default, all of it with HOLDFAST_ATTACK=full. `--runs=3` multiplies both.
import { runs } from "../runs.ts";

const isFull = process.env["HOLDFAST_ATTACK"] === "full";

/** The number of attacks for a full size of `count`. */
export const attacks = (count: number): number => runs(isFull ? count : count / 10);

/** A test of the full lane with this time limit in seconds, which is ten times as long at full size. */
export const lasting = (seconds: number) => ({ tags: ["full"], timeout: runs(isFull ? 10 : 1) * seconds * 1000 });

/** Prints the counts of one part. */
export function report(part: string, counts: Record<string, number | string>): void {
  const line = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
  console.log(`attack, ${part}: ${line.join(", ")}`);
}
