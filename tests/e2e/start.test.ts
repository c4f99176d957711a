// npm start: shows the main features without setup, any number of times.
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { root } from "../files.ts";
import { inShell } from "./installed.ts";

test(
  "npm start collects, prints metrics and a transcript, and says what to run next; twice in a row",
  { tags: ["full"], timeout: 120_000 },
  async () => {
    const folder = await mkdtemp(join(tmpdir(), "holdfast-start-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    for (const number of [1, 2]) {
      const { code, stdout, stderr } = await inShell(`npm start --silent -- ${folder}`, root);
      expect(code, `${stdout}${stderr}`).toBe(0);
      expect(stdout).toContain(`240 of 240 rollouts scored: ${folder}/start-${number}/scripted.jsonl\n`);
      expect(stdout).toContain("difference in mean reward (second - first) over 60 tasks\n");
      expect(stdout).toMatch(/\n\(count is now -?\d+\)\n/);
      expect(stdout).toMatch(/\nreward 1\n/);
      expect(stdout).toContain("\n  npx holdfast init my-environment\n");
      expect(existsSync(join(folder, `start-${number}/random.db`))).toBe(true);
    }
  },
);
