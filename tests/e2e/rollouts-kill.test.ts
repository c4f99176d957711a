// The server of a rollout request is killed repeatedly, and its client too: every row arrives once.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { TaskRow } from "../../src/core/rollout.ts";
import { root } from "../files.ts";
import { keysOf, newFolder } from "../rollout/folder.ts";
import { startServing } from "./serve-process.ts";

interface Line {
  type: string;
  index?: number;
  row?: TaskRow;
  [field: string]: unknown;
}

/** Reads lines until there are `most` of them, the stream ends, or its server dies. */
async function read(reply: Response, lines: Line[], most = Infinity): Promise<void> {
  let text = "";
  const decoder = new TextDecoder();
  try {
    for await (const chunk of reply.body as AsyncIterable<Uint8Array>) {
      text += decoder.decode(chunk, { stream: true });
      const parts = text.split("\n");
      text = parts.pop() ?? "";
      for (const line of parts.map((part) => JSON.parse(part) as Line)) {
        if (line.type !== "waiting" && lines.length < most) lines.push(line);
      }
      if (lines.length >= most) return;
    }
  } catch {
    // Its server is dead.
  }
}

test(
  "RESUME: after kills of the server and of the client, a request hands out every row once, in one order",
  { timeout: 120_000 },
  async () => {
    const store = `sqlite:${join(newFolder(), "store.db")}`;
    const args = [join(root, "examples/counter"), "--store", store, "--lease", "1s", "--port", "0", "--log", "none"];
    const repeats = 60;
    const body = JSON.stringify({
      request: "iter-1",
      limit: 20,
      repeats,
      concurrency: 32,
      model: { name: "scripted" },
    });
    const rollouts = 20 * repeats;
    const lines: Line[] = [];
    const ends = (): boolean => lines.at(-1)?.type === "end";
    for (const most of [40, 300, 301, 700, Infinity]) {
      const server = await startServing(args);
      const post = { method: "POST", headers: { "content-type": "application/json" }, body };
      // A client that was killed begins again where it was; one that asks again with the same body joins too.
      const reply =
        lines.length % 2 === 0
          ? await fetch(`${server.url}/v1/rollouts?after=${lines.length}`, post)
          : await fetch(`${server.url}/v1/rollouts/iter-1?after=${lines.length}`);
      expect(reply.status).toBe(200);
      await read(reply, lines, most);
      server.process.kill("SIGKILL");
      await server.ended;
      await sleep(10);
      expect(lines.map(({ index }) => index)).toEqual(lines.map((_, at) => at + 1));
      if (most === Infinity) expect(ends()).toBe(true);
    }
    const rows = lines.flatMap(({ row }): TaskRow[] => (row ? [row] : []));
    expect(rows).toHaveLength(rollouts);
    expect(new Set(keysOf(rows)).size).toBe(rollouts);
    expect(rows.every(({ reward }) => reward === 1)).toBe(true);
    expect(lines.at(-1)).toMatchObject({ type: "end", done: rollouts, failed: 0, cancelled: false });
  },
);
