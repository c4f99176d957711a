// Several requests that continue the same response at once, on two servers with one store: each gets its own branch.
import { setTimeout as delay } from "node:timers/promises";
import { createSessions, defineAgent, memoryStore, scriptedModel, type Item, type Store } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { openaiClient } from "./openai-client.ts";

const textOf = ({ content }: Item): string =>
  typeof content === "string" ? content : (content as { text: string }[]).map(({ text }) => text).join("");

/** Says what the model has seen. */
const echo = defineAgent({ name: "echo", model: scriptedModel(({ input }) => input.map(textOf).join(", ")) });

/** A store whose appends arrive late, and in any order. */
function slowStore(): Store {
  const store = memoryStore();
  return {
    ...store,
    async append(...commits) {
      await delay(Math.random() * 8);
      return store.append(...commits);
    },
  };
}

function replicas(store: Store) {
  return [0, 1].map(() => {
    const sessions = createSessions({ app: "echo", store });
    onTestFinished(() => sessions.stop());
    return { sessions, ...openaiClient(echo, sessions) };
  });
}

test.each([
  ["without keys", () => ({})],
  ["under keys", () => ({ headers: { "idempotency-key": crypto.randomUUID() } })],
])("SERIAL: requests that continue one response at once get a branch each, %s", async (_title, keyed) => {
  const [one, two] = replicas(slowStore()) as [ReturnType<typeof replicas>[0], ReturnType<typeof replicas>[0]];
  const clients = [one.client, two.client, one.client, two.client];
  for (let round = 0; round < 30; round++) {
    const first = await one.client.responses.create({ model: "echo", input: `start ${round}` });
    const asking = clients.map((client, at) => ({
      client,
      asked: { model: "echo", input: `branch ${at}`, previous_response_id: first.id },
      key: keyed(),
    }));
    const answers = await Promise.all(asking.map(({ client, asked, key }) => client.responses.create(asked, key)));
    expect(answers.map(({ output_text }) => output_text)).toEqual(
      clients.map((_client, at) => `start ${round}, start ${round}, branch ${at}`),
    );
    const conversations = new Set(answers.map(({ conversation }) => conversation?.id));
    expect(conversations.size).toBe(clients.length);
    expect(conversations).toContain(first.conversation?.id);
    if (!("headers" in keyed())) continue;
    // A repeat finds its branch on the other server.
    const again = await Promise.all(
      asking.map(({ asked, key }, at) => (clients[at + 1] ?? one.client).responses.create(asked, key)),
    );
    expect(again).toEqual(answers);
  }
});
