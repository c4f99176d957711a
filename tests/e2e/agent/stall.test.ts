// A process whose event loop stands still for longer than its lease: another one continues its turn, and it begins nothing more.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createSessions, defineAgent, scriptedModel, tool } from "holdfast";
import { sqliteStore } from "holdfast/stores/sqlite";
import { expect, onTestFinished, test } from "vitest";
import { finish } from "../../agent/engine.ts";
import { built } from "../../built.ts";

const child = fileURLToPath(new URL("stall-child.mjs", import.meta.url));

/** Runs the turn in a process that stands still for a while. `meanwhile` runs when it does. Returns what it reported. */
async function stalled(options: object, meanwhile: () => Promise<unknown>): Promise<string[]> {
  const given = JSON.stringify({ built: await built(), ...options });
  const running = spawn(process.execPath, [child, given], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  let other: Promise<unknown> | undefined;
  running.stdout.on("data", (chunk) => {
    text += String(chunk);
    if (text.includes("stalled")) other ??= meanwhile();
  });
  await new Promise((resolve) => running.on("close", resolve));
  await other;
  return text.trimEnd().split("\n");
}

test("ONCE: a process that stood still for longer than its lease begins no effect of a turn that was taken", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-stall-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "stall.db");
  const store = sqliteStore({ file });
  onTestFinished(() => store.close());
  const sessions = createSessions({ app: "stall", store });
  const paid: string[] = [];
  const pay = tool({ description: "Pays.", effects: "external", run: () => void paid.push("pay") });
  const agent = defineAgent({ name: "payer", model: scriptedModel(() => "I do not know."), tools: { pay } });

  const { session } = await sessions.open();
  const lines = await stalled({ file, session, lease: 300, stall: 4_000 }, async () => {
    const again = await finish(agent, { sessions, session, message: "pay", call: "m1" });
    expect(again).toMatchObject({ outcome: "answered", repeated: false });
    const failed = again.events.flatMap((event) => (event.type === "tools.answered" ? (event.failed ?? []) : []));
    expect(failed).toMatchObject([{ code: "outcome_unknown" }]);
  });
  expect(lines).toEqual(["stalled", "awake", "turn_lost"]);
  expect(paid).toEqual([]);

  // A process that nobody took the turn from has it after all.
  const { session: other } = await sessions.open();
  const alone = await stalled({ file, session: other, lease: 300, stall: 1_000 }, async () => undefined);
  expect(alone).toEqual(["stalled", "awake", "paid", "answered"]);
});
