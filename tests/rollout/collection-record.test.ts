// The settings of a collection are stored beside it, and differences are named.
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { differences, readRecord, writeRecord } from "../../src/rollout/collection-record.ts";
import { newFolder } from "./folder.ts";

test("a record is read as it was written; without one the result is undefined", async () => {
  const folder = newFolder();
  const file = join(folder, "deep/run.json");
  expect(readRecord(file)).toBeUndefined();
  const record = { run: "r", settings: { model: "random", limit: null, seed: 3 } };
  await writeRecord(file, record);
  expect(readRecord(file)).toEqual(record);
  expect(readdirSync(join(folder, "deep"))).toEqual(["run.json"]);
});

test("the location of the code is not a setting: a resumed collection may have moved", async () => {
  const file = join(newFolder(), "run.json");
  const record = { run: "r", settings: { seed: 3 }, target: "../examples/counter" };
  await writeRecord(file, record);
  expect(readRecord(file)).toEqual(record);
  expect(differences(readRecord(file)?.settings ?? {}, { seed: 3 })).toEqual([]);
  writeFileSync(file, JSON.stringify({ ...record, target: 7 }));
  expect(readRecord(file)).toEqual({ run: "r", settings: { seed: 3 } });
});

test("an unreadable record is not a missing one", () => {
  const folder = newFolder();
  const file = join(folder, "run.json");
  for (const text of ["", "{", "[]", '{"run":1,"settings":{}}']) {
    writeFileSync(file, text);
    expect(() => readRecord(file)).toThrow(expect.objectContaining({ code: "cannot_load" }));
  }
  writeFileSync(file, "null");
  expect(() => readRecord(file)).toThrow("is not a valid run record");
  expect(() => readRecord(folder)).toThrow(expect.objectContaining({ code: "cannot_load" }));
});

test("every difference is named, with its old and new value", () => {
  const long = "x".repeat(100);
  expect(differences({ a: 1, b: [1], c: "same" }, { a: 2, b: [1], c: "same", d: long })).toEqual([
    "a was 1 and is now 2",
    `d was null and is now "${"x".repeat(59)}…`,
  ]);
  expect(differences({ limit: null }, {})).toEqual([]);
});

test("another model is one difference: the solution or the recording of a model is not named", () => {
  const before = { model: "scripted", solution: "sha256:a", recording: null };
  expect(differences(before, { model: "chat:m", solution: null })).toEqual([
    'model was "scripted" and is now "chat:m"',
  ]);
  expect(differences(before, { ...before, solution: "sha256:b" })).toHaveLength(1);
});
