// Many writers share one output.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openOutput } from "../../src/rollout/line-output.ts";
import { newFolder } from "./folder.ts";

test("many writers that wait for one file are not reported as a leak", async () => {
  const warnings: Error[] = [];
  const warn = (warning: Error): void => void warnings.push(warning);
  process.on("warning", warn);
  onTestFinished(() => void process.off("warning", warn));
  const file = join(newFolder(), "rows.jsonl");
  const output = openOutput(file);
  const line = "x".repeat(100_000);
  await Promise.all(Array.from({ length: 40 }, () => output.write(line)));
  await output.done();
  // Warnings are emitted after the current work.
  await new Promise((resolve) => setImmediate(resolve));
  expect(warnings).toEqual([]);
  expect(readFileSync(file, "utf8")).toBe(`${line}\n`.repeat(40));
});
