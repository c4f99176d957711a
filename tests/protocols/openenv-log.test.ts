// What the server logs about OpenEnv's messages, and what its state and verdicts read of a long log.
import { createSessions, defineEnvironment, memoryStore, tool, type Store } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { HoldfastError } from "../../src/core/errors.ts";
import { openEnvClient, post } from "./openenv-client.ts";
import { serve } from "../../src/server/serve.ts";
import { createStepCount } from "../../src/protocols/openenv/step-count.ts";
import { submit } from "../../src/protocols/http/submit.ts";

const lamp = defineEnvironment({
  name: "lamp",
  unseeded: "defaults",
  tools: { press: tool({ description: "Press.", run: () => ({ on: true }) }) },
  verify: () => 1,
});

/** A store that fails on request. */
function failing(): Store & { isDown: boolean } {
  const store = memoryStore();
  const down = (): void => {
    if (broken.isDown) throw new HoldfastError("store_failed", "the disk is full");
  };
  const broken = Object.assign(Object.create(store) as Store, {
    isDown: false,
    append: async (...given: Parameters<Store["append"]>) => (down(), store.append(...given)),
    read: async (...given: Parameters<Store["read"]>) => (down(), store.read(...given)),
  });
  return broken;
}

test("a failure of a message on a WebSocket is logged as one of a request, with its session and without its id", async () => {
  const lines: string[] = [];
  const store = failing();
  const serving = await serve({
    environments: [lamp],
    store,
    port: 0,
    log: { destination: { write: (line) => void lines.push(line) } },
  });
  onTestFinished(() => serving.close());
  const client = await openEnvClient(`${serving.url}/openenv`);
  const { data } = await client.ask("reset", {});
  const id = (data as { metadata: { session_id: string } }).metadata.session_id;
  await client.ask("nonsense", {});
  expect(lines).toEqual([]);
  store.isDown = true;
  const step = { type: "call_tool", tool_name: "press", arguments: {} };
  expect((await client.ask("step", step)).type).toBe("error");
  const rpc = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "press", arguments: {} } };
  await client.ask("mcp", rpc);
  await post(`${serving.url}/openenv/mcp?session_id=${id}`, rpc);
  store.isDown = false;
  client.socket.terminate();
  const logged = lines.map((line) => JSON.parse(line) as { method: string; path: string; error?: { code: string } });
  expect(logged.map(({ method, path, error }) => [method, path, error?.code])).toEqual([
    ["WS", "/openenv/ws", "store_failed"],
    ["WS", "/openenv/ws", "store_failed"],
    ["POST", "/openenv/mcp", "store_failed"],
  ]);
  expect(lines.join()).not.toContain(id);
});

test("GROWTH: the state and a second verdict read only the newest part of the log", async () => {
  const store = memoryStore();
  const engine = createSessions({ environment: lamp, store });
  onTestFinished(() => engine.stop());
  let read = 0;
  const sessions: typeof engine = {
    ...engine,
    async *events(...given: Parameters<typeof engine.events>) {
      for await (const event of engine.events(...given)) {
        read++;
        yield event;
      }
    },
  };
  const { session } = await engine.open({ task: {} as never });
  const count = createStepCount(sessions);
  const press = async (times: number): Promise<void> => {
    for (let at = 0; at < times; at++) await engine.call(session, "press");
  };
  await press(50);
  expect(await count(session)).toBe(50);
  read = 0;
  await press(3);
  expect([await count(session), read]).toEqual([53, 3]);
  expect(await submit(sessions, session, "a")).toMatchObject({ reward: 1, verdicts: 1 });
  await press(1);
  read = 0;
  await expect(submit(sessions, session, "a")).rejects.toMatchObject({ code: "episode_over" });
  expect(read).toBe(1);
});

test("the first verdict on an episode stays valid after others, and no other one is", async () => {
  const engine = createSessions({ environment: lamp, store: memoryStore() });
  onTestFinished(() => engine.stop());
  const { session } = await engine.open({ task: {} as never });
  await engine.call(session, "press");
  expect(await submit(engine, session, "a")).toMatchObject({ verdicts: 1 });
  await expect(submit(engine, session, "b")).rejects.toMatchObject({ code: "episode_over" });
  expect(await submit(engine, session, "a")).toMatchObject({ verdicts: 2 });
  await engine.call(session, "press");
  for (const response of ["a", "b", "a"]) {
    await expect(submit(engine, session, response)).rejects.toMatchObject({ code: "episode_over" });
  }
  await engine.seed(session, {} as never);
  expect(await submit(engine, session, "a")).toMatchObject({ verdicts: 1 });
});
