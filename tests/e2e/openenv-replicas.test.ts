// 256 OpenEnv episodes at once on two replicas. One replica is killed, and all episodes end with reward 1.
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { openEnvClient, type Frame, type OpenEnvClient } from "../protocols/openenv-client.ts";
import { startServing } from "./serve-process.ts";

/** A client that connects to the next server when its connection is lost, and sends its action again. */
function persistent(servers: readonly string[], first: number) {
  let at = first;
  let client: OpenEnvClient | undefined;
  let id: string | undefined;
  let lost = 0;
  const ask = async (type: string, data: unknown): Promise<Frame> => {
    for (let attempt = 0; ; attempt++) {
      try {
        client ??= await openEnvClient(`${servers[at % servers.length]}/openenv`, id);
        const frame = await client.ask(type, data);
        if (frame.type === "error") throw new Error(JSON.stringify(frame.data));
        id ??= frame.data.metadata?.session_id as string | undefined;
        return frame;
      } catch (thrown) {
        if (attempt > 50) throw thrown;
        client?.socket.terminate();
        client = undefined;
        at++;
        lost++;
        await sleep(20);
      }
    }
  };
  return { ask, lost: () => lost, end: () => client?.socket.terminate() };
}

test("256 episodes survive a killed replica", { tags: ["full"], timeout: 180_000 }, async () => {
  const store = `sqlite:${join(mkdtempSync(join(tmpdir(), "holdfast-openenv-")), "sessions.db")}`;
  const args = ["examples/counter", "--port", "0", "--store", store];
  const replicas = [await startServing(args), await startServing(args)] as const;
  const urls = replicas.map(({ url }) => url);
  const [episodes, steps] = [256, 8];
  let taken = 0;
  let killed = false;
  const played = await Promise.all(
    Array.from({ length: episodes }, async (_, episode) => {
      const { ask, lost, end } = persistent(urls, episode);
      await ask("reset", { initial_count: episode, expected_count: episode + steps });
      for (let step = 0; step < steps; step++) {
        const metadata = { request_id: `step ${step}` };
        await ask("step", { type: "call_tool", tool_name: "increment_counter", arguments: { count: 1 }, metadata });
        if (++taken > (episodes * steps) / 3 && !killed) {
          killed = true;
          replicas[0].process.kill("SIGKILL");
        }
      }
      const { data } = await ask("step", { type: "submit" });
      end();
      return { reward: data.reward as number, lost: lost() };
    }),
  );
  expect(played.map(({ reward }) => reward)).toEqual(Array.from({ length: episodes }, () => 1));
  // The replica had about half of the episodes when it was killed.
  expect(played.filter(({ lost }) => lost > 0).length).toBeGreaterThan(episodes / 4);
});
