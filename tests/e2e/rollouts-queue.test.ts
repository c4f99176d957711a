// Rollout requests over a queue: workers play them, also when one is killed, and every row arrives once.
import { expect, test } from "vitest";
import type { TaskRow } from "../../src/core/rollout.ts";
import { newWorld, taskLine } from "../cli/collect-process.ts";
import { newRedis, startCommand, startWorker } from "../queue/queue-process.ts";
import { chatServer, completion } from "../rollout/chat-server.ts";
import { keysOf } from "../rollout/folder.ts";
import { startServing } from "./serve-process.ts";

const tasks = Array.from({ length: 10 }, (_, n) => taskLine(n));

async function rowsFrom(url: string, body: object, onRow?: (count: number) => void): Promise<TaskRow[]> {
  const headers = { "content-type": "application/json" };
  const reply = await fetch(`${url}/v1/rollouts`, { method: "POST", headers, body: JSON.stringify(body) });
  const rows: TaskRow[] = [];
  let text = "";
  for await (const chunk of reply.body as AsyncIterable<Uint8Array>) {
    const lines = (text + Buffer.from(chunk).toString()).split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) {
      const { row } = JSON.parse(line) as { row?: TaskRow };
      if (row) onRow?.(rows.push(row));
    }
  }
  return rows;
}

test(
  "workers play a request, one is killed, and every row arrives once",
  { tags: ["full"], timeout: 120_000 },
  async () => {
    const [world, redis] = [newWorld(tasks), await newRedis()];
    const seen = new Set<string>();
    const { url: policy } = await chatServer(({ messages }) => {
      const turn = messages.filter(({ role }) => role === "assistant").length;
      seen.add(String(messages[0]?.content));
      return turn < 3 ? completion({ name: "roll", arguments: { times: 1 } }) : completion("Done.");
    });
    const store = ["--store", redis.url, "--queue", redis.url];
    const args = ["environment.mjs", "--port", "0", ...store];
    const server = await startServing(args, { cwd: world.folder });
    const [first] = await Promise.all([0, 1].map(() => startWorker(world, redis.url)));
    const body = {
      request: "q",
      repeats: 6,
      stepRewards: true,
      limits: { steps: 10 },
      model: { url: policy, name: "policy" },
    };
    const rows = await rowsFrom(server.url, body, (count) => count === 10 && first?.process.kill("SIGKILL"));
    expect(new Set(keysOf(rows)).size).toBe(60);
    expect(rows).toHaveLength(60);
    expect(rows.every((row) => typeof row["reward"] === "number")).toBe(true);
    expect(rows[0]?.["step_rewards"]).toHaveLength(4);
    expect(seen.size).toBe(10);
  },
);

test("a queue with a store in memory is refused: workers could not reach the sessions", async () => {
  const [world, redis] = [newWorld(tasks.slice(0, 1)), await newRedis()];
  const refused = await startCommand(world.folder, ["serve", "environment.mjs", "--port", "0", "--queue", redis.url]);
  const { code, stderr } = await refused.ended;
  expect([code, stderr]).toEqual([1, expect.stringContaining("workers cannot share a memory: store")]);
});
