// One process owns an output, and a killed process no longer owns it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { claimOutput } from "../../src/rollout/output-lock.ts";
import { newFolder } from "./folder.ts";

test("a released lock leaves nothing behind", async () => {
  const out = join(newFolder(), "deep/rows.jsonl");
  const claim = await claimOutput(out);
  expect(readdirSync(join(out, ".."))).toEqual([expect.stringMatching(/^rows_run\.\d+\.\d+\.lock$/)]);
  claim.release();
  expect(readdirSync(join(out, ".."))).toEqual([]);
});

test("the lock of a running process refuses others, and that of a killed one blocks nobody", async () => {
  const out = join(newFolder(), "rows.jsonl");
  const other = spawn("sleep", ["60"]);
  await once(other, "spawn");
  const isLinux = existsSync("/proc/self/stat");
  // Its name has no spaces.
  const began = isLinux ? (readFileSync(`/proc/${other.pid}/stat`, "utf8").split(" ")[21] as string) : "0";
  const theirs = join(out, "..", `rows_run.${other.pid}.${began}.lock`);
  writeFileSync(theirs, "");
  await expect(claimOutput(out)).rejects.toMatchObject({
    code: "invalid_option",
    message: expect.stringContaining(`process ${other.pid} is collecting`) as string,
  });
  // A different process that had the same id before.
  if (isLinux) {
    const before = join(out, "..", `rows_run.${other.pid}.1.lock`);
    writeFileSync(before, "");
    await expect(claimOutput(out)).rejects.toThrow("is collecting");
    expect(readdirSync(join(out, "..")).length).toBeLessThanOrEqual(2);
    writeFileSync(before, "");
  }
  other.kill("SIGKILL");
  await once(other, "close");
  (await claimOutput(out)).release();
  expect(readdirSync(join(out, ".."))).toEqual([]);
});
