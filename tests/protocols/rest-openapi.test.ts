// The OpenAPI document is correct: every path is called, and every reply is checked against it.
import {
  createSessions,
  defineAgent,
  defineEnvironment,
  memoryStore,
  scriptedModel,
  tool,
  type Toolset,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { replies } from "../../src/protocols/rest/replies.ts";
import { problemIn, type FieldSchema } from "../../src/protocols/http/field-schema.ts";
import { everyStore } from "../every-store.ts";
import { counter } from "../session/counter.ts";
import { goingOnOf } from "../rollout/continuing.ts";
import { onEveryStore, open } from "../session/engine.ts";
import { onEveryStore as onEveryAgentStore } from "../agent/engine.ts";
import { createTaskFiles } from "../../src/rollout/task-files.ts";
import { restProtocol } from "../../src/protocols/rest.ts";
import { createUserTokens } from "../../src/server/user-tokens.ts";
import { clientFor, clientOf, type Client, type Got } from "./rest-client.ts";

const [memory] = everyStore as [(typeof everyStore)[0]];

interface Operation {
  operationId: string;
  parameters?: { name: string; in: string; required: boolean; schema: FieldSchema }[];
  requestBody?: { required: boolean; content: { "application/json": { schema: FieldSchema; example: object } } };
  responses: { [status: string]: { description: string; content?: { [type: string]: { schema: { $ref?: string } } } } };
}

interface Document {
  openapi: string;
  paths: { [path: string]: { [method: string]: Operation } };
  components: { schemas: { [name: string]: FieldSchema } };
  "x-tools": { [name: string]: { description: string; input: FieldSchema; example: unknown } };
}

async function documentOf(client: Client): Promise<Document> {
  const { status, body } = await client("GET", "/openapi.json");
  expect(status).toBe(200);
  return body as Document;
}

const operationsOf = ({ paths }: Document): [string, string, Operation][] =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, string, Operation] => [path, method, operation]),
  );

/** Checks that the document describes this reply of the operation. */
function expectDocumented(document: Document, { operationId, responses }: Operation, got: Got): void {
  const response = responses[got.status];
  expect(response, `${operationId} gave ${got.status}: ${JSON.stringify(got.body)}`).toBeDefined();
  const type = got.text !== undefined ? "text/html" : got.stream ? "text/event-stream" : "application/json";
  const content = response?.content?.[type];
  if (got.status === 204) return;
  expect(content, `${operationId} gave ${type}`).toBeDefined();
  const name = content?.schema.$ref?.split("/").at(-1);
  if (name === undefined) return;
  const schema = document.components.schemas[name];
  expect(schema).toEqual(replies[name as keyof typeof replies]);
  expect(problemIn(schema as FieldSchema, got.body, operationId)).toBe(undefined);
}

/** Calls every operation with its example and with wrong values, and returns how many there are. */
async function walk(client: Client, session: object): Promise<number> {
  const document = await documentOf(client);
  const operations = operationsOf(document);
  for (const [path, method, operation] of operations) {
    const { body } = await client("POST", "/v1/sessions", { body: session });
    const target = path.replace("{id}", path.startsWith("/v1/tasks") ? "default" : body.session);
    const example = operation.requestBody?.content["application/json"].example;
    const good = await client(method.toUpperCase(), target, { body: example });
    expect(good.status, `${operation.operationId}: ${JSON.stringify(good.body)}`).toBeLessThan(300);
    expectDocumented(document, operation, good);
    // Every parameter and body, wrong in every way.
    for (const { name, in: where } of operation.parameters ?? []) {
      if (where !== "query") continue;
      for (const value of ["", "x", "-1", "0", "true", "1e9", "{}", '{"a":1}']) {
        expectDocumented(document, operation, await client(method.toUpperCase(), `${target}?${name}=${value}`));
      }
    }
    for (const [name] of Object.entries(operation.requestBody?.content["application/json"].schema.properties ?? {})) {
      for (const value of [null, -1, 1.5, 1e9, "x", true, [], {}, { a: 1 }]) {
        const wrong = { ...example, [name]: value };
        expectDocumented(document, operation, await client(method.toUpperCase(), target, { body: wrong }));
      }
    }
    // The session is closed, and unknown.
    await client("DELETE", `/v1/sessions/${body.session}`);
    for (const gone of [target, path.replace("{id}", "nobody")]) {
      expectDocumented(document, operation, await client(method.toUpperCase(), gone, { body: example }));
    }
  }
  return operations.length;
}

onEveryStore("every operation of an environment, called with its example, gives a documented reply", async (place) => {
  const episodes = place.engine(counter);
  const sessionPlayer = goingOnOf(episodes, { scripted: () => scriptedModel(() => "Done.") });
  const tasks = createTaskFiles("examples/counter");
  const client = clientFor(restProtocol({ sessions: episodes, sessionPlayer, tasks }));
  expect(await walk(client, { task: { start: 1, goal: 2 } })).toBe(20);
});

onEveryAgentStore("every operation of an agent, called with its example, gives a documented reply", async (place) => {
  const agent = defineAgent({ name: "greeter", model: scriptedModel(() => "Hi!"), toolsets: [unreachable] });
  const issueToken = createUserTokens(["a key for tests that is long enough"]).issue;
  const client = clientFor(restProtocol({ sessions: place.engine("greeter", { agent }), agent, issueToken }));
  expect(await walk(client, { user: "ann" })).toBe(17);
});

const unreachable: Toolset = {
  list: () => Promise.reject(new Error("the server is down")),
  call: () => Promise.reject(new Error("the server is down")),
};

describe("the document", () => {
  test("describes the schemas that requests are checked by", async () => {
    const client = clientOf((await open(memory)).engine(counter));
    const document = await documentOf(client);
    expect(document.openapi).toBe("3.1.0");
    const names = operationsOf(document).map(([, , { operationId }]) => operationId);
    expect(new Set(names).size).toBe(names.length);
    const body = document.paths["/v1/sessions/{id}/rewind"]?.["post"]?.requestBody;
    expect(body).toMatchObject({
      required: true,
      content: {
        "application/json": {
          schema: { required: ["version"], additionalProperties: false, properties: { version: { minimum: 1 } } },
          example: { version: 1 },
        },
      },
    });
    const responses = document.paths["/v1/sessions/{id}/call"]?.["post"]?.responses ?? {};
    expect(Object.keys(responses).toSorted()).toEqual(["200", "400", "404", "408", "409", "410", "422", "default"]);
    expect(responses["409"]?.description).toContain("`call_conflict`");
    expect(document["x-tools"]["add"]).toMatchObject({
      description: "Add to the counter.",
      input: { type: "object", required: ["by"] },
      example: { by: expect.any(Number) },
    });
  });

  test("has no dangling references, also for recursive schemas", async () => {
    const part: z.ZodType = z.lazy(() => z.object({ name: z.string(), parts: z.array(part) }));
    const machine = defineEnvironment({
      name: "machine",
      state: z.object({ whole: part.optional() }),
      task: z.object({ whole: part }),
      seed: ({ task }) => ({ whole: task.whole }),
      tools: { mount: tool({ description: "Mount a part.", input: z.object({ part }), run: () => null }) },
      verify: () => 1,
    });
    const document = await documentOf(clientOf((await open(memory)).engine(machine)));
    const refs: string[] = [];
    JSON.stringify(document, (key, value: unknown) => {
      if (key === "$ref" && typeof value === "string") refs.push(value);
      return value;
    });
    expect(refs.some((ref) => ref.startsWith("#/components/schemas/Task/"))).toBe(true);
    expect(refs.some((ref) => ref.startsWith("#/x-tools/mount/input/"))).toBe(true);
    for (const ref of refs) {
      let found: unknown = document;
      for (const step of ref.split("/").slice(1)) found = (found as { [key: string]: unknown } | undefined)?.[step];
      expect(found, ref).toBeDefined();
    }
  });
});

test("the documents of an environment and an agent describe the verbs of every session alike", async () => {
  const agent = defineAgent({ name: "greeter", description: "Greets.", model: scriptedModel(() => "Hi!") });
  const sessions = createSessions({ app: "greeter", agent, store: memoryStore() });
  const ofAgent = await documentOf(clientFor(restProtocol({ sessions, agent })));
  const ofEnvironment = await documentOf(clientOf((await open(memory)).engine(counter)));
  const shared = operationsOf(ofEnvironment).filter(([path, method]) => ofAgent.paths[path]?.[method]);
  expect(shared.map(([, , { operationId }]) => operationId).toSorted()).toEqual([
    "closeSession",
    "docs",
    "expireSessions",
    "forkSession",
    "getSession",
    "getState",
    "listEvents",
    "listSessions",
    "openSession",
    "openapi",
    "replaySession",
    "rewindSession",
  ]);
  const differs = new Set(["openSession", "forkSession", "rewindSession"]);
  for (const [path, method, operation] of shared) {
    if (!differs.has(operation.operationId)) expect(ofAgent.paths[path]?.[method]).toEqual(operation);
  }
  expect(ofAgent).toMatchObject({ info: { title: "greeter", description: "Greets." } });
});

test("the page at /docs is complete: it loads nothing from elsewhere, and finds the document beside it", async () => {
  const { status, text = "", headers } = await clientOf((await open(memory)).engine(counter))("GET", "/docs");
  expect(status).toBe(200);
  expect(headers["content-type"]).toBe("text/html; charset=utf-8");
  expect(headers["content-security-policy"]).toContain("default-src 'none'");
  expect(text).not.toMatch(/https?:|\bsrc=|@import|innerHTML/);
  expect(text).toContain('fetch("openapi.json")');
});
