// The REST API answers any input with a reply or a coded refusal, and touches only the caller's session.
import { defineAgent, isHoldfastError, run, scriptedModel } from "holdfast";
import fc from "fast-check";
import { expect } from "vitest";
import { conversationRoutes } from "../../src/protocols/rest/conversation-routes.ts";
import { episodeRoutes, type Route } from "../../src/protocols/rest/routes.ts";
import { goingOnOf } from "../rollout/continuing.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import { restProtocol } from "../../src/protocols/rest.ts";
import { onEveryStore as onEveryAgentStore } from "../agent/engine.ts";
import { runs } from "../runs.ts";
import { counter } from "../session/counter.ts";
import { onEveryStore } from "../session/engine.ts";
import { clientOf, requestOf } from "./rest-client.ts";

const episodes = Object.values(episodeRoutes) as Route[];
const conversations = Object.values(conversationRoutes) as Route[];
const all = [...episodes, ...conversations];
const names = all.flatMap(({ query, body }) => Object.keys({ ...query?.properties, ...body?.properties }));

const name = fc.oneof(fc.constantFrom(...names, "__proto__", "constructor", "toString"), fc.string());
const scalar = fc.constantFrom<unknown>(0, 1, 2, -1, 1.5, 1e300, -0, true, null, "", "read", "add", "\ud800", "\u0000");
const value = fc.oneof(
  scalar,
  fc.jsonValue({ maxDepth: 4 }),
  fc.constant({ start: 1, goal: 2 }),
  fc.constant({ by: 1 }),
);
const body = fc.oneof(
  { weight: 4, arbitrary: fc.dictionary(name, value, { maxKeys: 5 }) },
  { weight: 2, arbitrary: fc.record({ tool: value, input: value, task: value, version: value }, { requiredKeys: [] }) },
  { weight: 1, arbitrary: fc.anything() },
  { weight: 1, arbitrary: fc.constant(undefined) },
);
const query = fc.array(fc.tuple(name, fc.oneof(fc.string(), fc.integer().map(String), scalar.map(String))), {
  maxLength: 3,
});
const headers = fc.record(
  {
    "idempotency-key": fc.string(),
    "last-event-id": fc.constantFrom("", "0", "1", "2", "9", "-1", "x", "1e3"),
    accept: fc.constantFrom("text/event-stream", "*/*"),
  },
  { requiredKeys: [] },
);
const id = fc.oneof(
  fc.constant("OWN"),
  fc.string(),
  fc.string({ unit: "binary" }),
  fc.constantFrom("%", "%00", "..", "{id}"),
);
const method = fc.constantFrom("GET", "POST", "DELETE", "PUT", "");

/** Sends random requests at the session of `open`, each at a new one. */
async function fuzz(protocol: Protocol, routes: readonly Route[], open: () => Promise<string>): Promise<void> {
  const paths = [...new Set(routes.map(({ path }) => path))];
  const property = fc.asyncProperty(
    ...([fc.constantFrom(...paths), id, method, query, headers, body] as const),
    async (path, id, method, query, headers, body) => {
      const session = await open();
      const target = path.replace("{id}", () => (id === "OWN" ? session : id));
      const gone = new AbortController();
      const request = {
        ...requestOf(method, "", { headers, signal: gone.signal }),
        path: target,
        query: new URLSearchParams(query),
        body,
      };
      try {
        const reply = await protocol.handle(request);
        // A live stream must be left.
        const leaving = reply?.stream && setTimeout(() => gone.abort(), 5);
        for await (const text of reply?.stream ?? []) expect(text).toMatch(/^(id|event): /);
        clearTimeout(leaving);
        if (reply) expect(reply.status).toBeLessThan(300);
      } catch (thrown) {
        if (!isHoldfastError(thrown)) throw thrown;
        expect(thrown.status, thrown.message).toBeLessThan(500);
      }
    },
  );
  await fc.assert(property, { numRuns: runs(1000) });
}

onEveryStore("any path, query, headers and body give a reply or a coded refusal, and never a 5xx", async (place) => {
  const sessions = place.engine(counter, { keepEnded: true });
  // Its name is one of the tried values.
  const { protocol } = clientOf(sessions, goingOnOf(sessions, { read: () => scriptedModel(() => "Done.") }));
  const task = { start: 1, goal: 2 };
  const bystander = await sessions.open({ task });
  await fuzz(protocol, episodes, async () => (await sessions.open({ task })).session);
  expect(await sessions.info(bystander.session)).toEqual(bystander);
});

onEveryAgentStore("any request to an agent gives a reply or a coded refusal, and never a 5xx", async (place) => {
  const agent = defineAgent({ name: "greeter", model: scriptedModel(() => "Hi!"), outputKey: "answer" });
  const sessions = place.engine("greeter", { agent, keepEnded: true });
  const bystander = await sessions.open({ user: "bob" });
  const open = async (): Promise<string> => {
    const { session } = await sessions.open({ user: "ann" });
    for await (const _ of run(agent, { sessions, session, message: "hello" })) continue;
    return session;
  };
  await fuzz(restProtocol({ sessions, agent }), conversations, open);
  expect(await sessions.info(bystander.session)).toEqual(bystander);
});
