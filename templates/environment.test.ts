// The solution wins every task, doing nothing wins none, and the environment keeps what every environment promises.
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { createSessions, memoryStore, type Json } from "holdfast";
import { environmentCases, solutionCases } from "holdfast/testing";
import environment from "./environment.ts";
import solution from "./solution.ts";

const lines = readFileSync("tasks.jsonl", "utf8").trim().split("\n");
const tasks = lines.map((line) => JSON.parse(line) as Json);
// Each case opens sessions on a store of its own, and stops them.
const open = () => createSessions({ environment, store: memoryStore() });

for (const { name, run } of environmentCases) test(name, () => run({ open, tasks }));
for (const { name, run } of solutionCases) test(name, () => run({ open, tasks, solution }));
