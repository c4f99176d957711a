// Outputs: many writers share one, and links and pipes stay what they are.
import { execFile, execFileSync } from "node:child_process";
import { readFileSync, readlinkSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { assertFree, openOutput, writeOutputs } from "../../src/rollout/line-output.ts";
import { writeWhole } from "../../src/rollout/output.ts";
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

test("a link to a file keeps pointing to it, and the file gets the new lines", async () => {
  const folder = newFolder();
  const [file, link, dangling] = ["rows.jsonl", "link.jsonl", "new.jsonl"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(file, "old\n");
  symlinkSync("rows.jsonl", link);
  symlinkSync("made.jsonl", dangling);
  for (const path of [link, dangling]) await writeOutputs([path], (output) => output!.write("new"));
  expect([file, join(folder, "made.jsonl")].map((path) => readFileSync(path, "utf8"))).toEqual(["new\n", "new\n"]);
  await writeWhole(link, "whole\n");
  expect(readFileSync(file, "utf8")).toBe("whole\n");
  expect([link, dangling].map((path) => readlinkSync(path))).toEqual(["rows.jsonl", "made.jsonl"]);
  expect(() => assertFree([link], file, { force: true })).toThrow(`${link} is the input file; choose another --out`);
});

test("a pipe is written to and stays a pipe", async () => {
  const pipe = join(newFolder(), "pipe");
  execFileSync("mkfifo", [pipe]);
  const read = promisify(execFile)("cat", [pipe]);
  assertFree([pipe], "rows.jsonl", {});
  await writeOutputs([pipe], (output) => output!.write("new"));
  expect((await read).stdout).toBe("new\n");
  const readWhole = promisify(execFile)("cat", [pipe]);
  await writeWhole(pipe, "whole\n");
  expect((await readWhole).stdout).toBe("whole\n");
  expect(statSync(pipe).isFIFO()).toBe(true);
});

test("a folder as output file, and a file as output folder, are refused", () => {
  const folder = newFolder();
  const file = join(folder, "rows.jsonl");
  writeFileSync(file, "");
  expect(() => assertFree([folder], file, { force: true })).toThrow(`${folder} is a folder, not a file`);
  expect(() => openOutput(join(file, "train.jsonl"))).toThrow(`${file} is not a folder`);
});
