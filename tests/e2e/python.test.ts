// The tests of the Python package, with the python3 of this machine. Tests that need torch say so where it is missing.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "../files.ts";
import { shared } from "../shared.ts";

// Debian's python3 may have torch where the first one of the PATH has not.
const pythons = ["/usr/bin/python3", "python3"].filter((name) => {
  const script = "import sys; sys.exit(sys.version_info < (3, 11))";
  return spawnSync(name, ["-c", script]).status === 0;
});

function runTests(names: string[], cli: string): { status: number | null; output: string } {
  const [python = "python3"] = pythons;
  const modules = names.map((name) => `tests.test_${name}`);
  const { status, stdout, stderr } = spawnSync(python, ["-m", "unittest", "-v", ...modules], {
    cwd: join(root, "python"),
    env: { ...process.env, HOLDFAST_CLI: cli, HOLDFAST_NODE: process.execPath, PYTHONDONTWRITEBYTECODE: "1" },
    encoding: "utf8",
  });
  return { status, output: `${stdout}${stderr}` };
}

test("the Python client, rows and advantages pass their tests", { timeout: 120_000 }, async ({ skip }) => {
  if (pythons.length === 0) skip("there is no python3 of version 3.11 or newer");
  const { status, output } = runTests(["client", "data", "recipes"], join(await shared("dist"), "cli", "main.js"));
  expect(output).not.toContain("skipped");
  expect(status, output).toBe(0);
});

test(
  "a killed server, the policy server and a toy training pass their tests",
  { timeout: 600_000, tags: ["full"] },
  async ({ skip }) => {
    if (pythons.length === 0) skip("there is no python3 of version 3.11 or newer");
    const { status, output } = runTests(
      ["kill", "policy", "language_model", "training"],
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
