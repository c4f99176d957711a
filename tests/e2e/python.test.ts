// The tests of the Python package, with the python3 of this machine. Tests that need torch say so where it is missing.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "../files.ts";
import { findPython } from "../python.ts";
import { shared } from "../shared.ts";

const python = findPython();

function runTests(names: string[], cli: string): { status: number | null; output: string } {
  const modules = names.map((name) => `tests.test_${name}`);
  const { status, stdout, stderr } = spawnSync(python ?? "python3", ["-m", "unittest", "-v", ...modules], {
    cwd: join(root, "python"),
    env: { ...process.env, HOLDFAST_CLI: cli, HOLDFAST_NODE: process.execPath, PYTHONDONTWRITEBYTECODE: "1" },
    encoding: "utf8",
  });
  return { status, output: `${stdout}${stderr}` };
}

const passing = {
  "the Python client and rows": ["client", "stream", "data"],
  "the adapters for trainers and the code of the docs": ["trainers", "recipes"],
  "ONCE: the Python client and a killed server": ["once"],
};

test.for(Object.entries(passing))("%s pass their tests", { timeout: 120_000 }, async ([, names], { skip }) => {
  if (python === undefined) skip("there is no python3 of version 3.11 or newer");
  const { status, output } = runTests(names, join(await shared("dist"), "cli", "main.js"));
  expect(output).not.toContain("skipped");
  expect(status, output).toBe(0);
});

test(
  "a killed server, the policy server and a toy training pass their tests",
  { timeout: 600_000, tags: ["full"] },
  async ({ skip }) => {
    if (python === undefined) skip("there is no python3 of version 3.11 or newer");
    const { status, output } = runTests(
      ["kill", "attempts", "update", "flags", "warmup", "policy", "language_model", "training"],
      join(await shared("dist"), "cli", "main.js"),
    );
    console.log(
      output
        .split("\n")
        .filter((line) => line.includes("skipped"))
        .join("\n"),
    );
    expect(status, output).toBe(0);
  },
);
