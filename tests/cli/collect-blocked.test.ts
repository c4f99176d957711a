// A collection that a tool blocks: it names the tool and the rollout, and continues if the tool returns.
import { writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { newWorld, taskLine } from "./collect-process.ts";

const agent = (call: string): string => `
import { defineAgent, scriptedModel } from "holdfast";
export default defineAgent({ name: "roller", model: scriptedModel(async (_, turn) => (turn === 0 ? { calls: [${call}] } : "Done.")) });
`;

const environment = (block: string): string => `
import { execSync } from "node:child_process";
import { defineEnvironment, tool } from "holdfast";
export default defineEnvironment({
  name: "stuck",
  tools: {
    spin: tool({
      description: "Block the process.",
      run() {
        ${block}
        return {};
      },
    }),
  },
  verify: () => 1,
});
`;

test.each([
  [
    "a loop",
    "for (const end = Date.now() + 7_500; Date.now() < end; );",
    "run at PLACE:10 (running: spin in task 1, repeat 0)",
  ],
  ["a synchronous call", 'execSync("sleep 7.5");', "a call of Node that does not return"],
])(
  "a tool that blocks the whole collection is named: %s",
  { tags: ["full"], timeout: 120_000 },
  async (_, block, place) => {
    const world = newWorld([taskLine(0), taskLine(1)]);
    writeFileSync(world.at("environment.mjs"), environment(block));
    writeFileSync(world.at("agent.mjs"), agent('{ name: "spin", arguments: {} }'));
    const running = await world.start(["--out", "run.jsonl", "--concurrency", "1", "--limit", "2"]);
    const { code, stderr } = await running.ended;
    expect(code).toBe(0);
    const named = place.replace("PLACE", world.at("environment.mjs"));
    expect(stderr).toContain(`no rollout made progress for 5 s: ${named} blocks the process.`);
    expect(stderr).toContain(`run "kill -9 ${running.process.pid}", then continue with --resume`);
    // Once for each of the two calls.
    expect(stderr.match(/blocks the process/g)?.length).toBe(2);
  },
);
