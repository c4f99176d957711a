// The official OpenAI client against a served agent whose server is killed: in the middle of a stream, while a turn
// waits for the client, and before the client's own retry.
// @module-tag full
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { built } from "../built.ts";
import { startServing } from "./serve-process.ts";

beforeAll(async () => void (await built()), 120_000);

test("ONCE: a request that is repeated after its server was killed in mid-stream is applied once", async () => {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-openai-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const token = "a token for this test";
  const store = `sqlite:${join(folder, "openai.db")}`;
  const args = ["tests/e2e/agent/slow", "--store", store, "--lease", "1s", "--token", token.replaceAll(" ", "-")];
  const slow = await startServing([...args, "--port", "0"], { env: { SLOW_MS: "60000" } });
  const { port } = new URL(slow.url);
  const apiKey = token.replaceAll(" ", "-");
  const client = new OpenAI({ apiKey, baseURL: `${slow.url}/slow/v1`, maxRetries: 0 });
  const key = { headers: { "idempotency-key": crypto.randomUUID() } };
  const body = { model: "slow", input: "add" };
  let conversation = "";
  const types: string[] = [];
  const cut = (async () => {
    for await (const event of await client.responses.create({ ...body, stream: true }, key)) {
      types.push(event.type);
      if (event.type === "response.created") conversation = event.response.conversation?.id ?? "";
    }
  })();
  cut.catch(() => undefined);
  const headers = { authorization: `Bearer ${apiKey}` };
  const state = async (): Promise<unknown> => {
    const reply = await fetch(`${slow.url}/v1/sessions/${conversation}/state`, { headers });
    return ((await reply.json()) as { state?: { count: number } }).state?.count;
  };
  await expect.poll(state).toBe(1);
  slow.process.kill("SIGKILL");
  await slow.ended;
  // Whether a cut stream throws depends on where it is cut. It never ends like a whole one.
  await cut.catch(() => undefined);
  expect(types).not.toContain("response.completed");
  await startServing([...args, "--port", port]);
  const again = await client.responses.create(body, key);
  expect([again.output_text, again.conversation?.id]).toEqual(["Added one.", conversation]);
  expect((await client.responses.create(body, key)).id).toBe(again.id);
  expect(await state()).toBe(1);
  const bad = new OpenAI({ apiKey: "wrong", baseURL: `${slow.url}/slow/v1`, maxRetries: 0 });
  await expect(bad.responses.create(body)).rejects.toMatchObject({ status: 401, code: "unauthorized" });
}, 120_000);

test("DURABLE, ONCE: a turn that waits for the client's tools survives kills before and after the results", async () => {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-openai-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const args = ["tests/e2e/agent/slow", "--store", `sqlite:${join(folder, "openai.db")}`, "--lease", "1s"];
  const first = await startServing([...args, "--port", "0"]);
  const { port } = new URL(first.url);
  const client = new OpenAI({ apiKey: "none", baseURL: `${first.url}/slow/v1`, maxRetries: 0 });
  const parameters = { type: "object", properties: {} };
  const tools = [{ type: "function" as const, name: "locate", parameters, strict: false }];
  const key = (): { headers: { "idempotency-key": string } } => ({
    headers: { "idempotency-key": crypto.randomUUID() },
  });
  const asked = { model: "slow", input: "locate", tools };
  const asking = key();
  const stream = client.responses.stream(asked, asking);
  const calls: string[] = [];
  for await (const event of stream) {
    if (event.type !== "response.output_item.done" || event.item.type !== "function_call") continue;
    expect([event.item.name, event.item.arguments]).toEqual(["locate", "{}"]);
    calls.push(event.item.call_id);
  }
  const waiting = await stream.finalResponse();
  expect([calls.length, waiting.status]).toEqual([2, "completed"]);
  first.process.kill("SIGKILL");
  await first.ended;

  // The second server gets the results, and is killed before it answers.
  const second = await startServing([...args, "--port", port], { env: { SLOW_MS: "60000" } });
  const conversation = waiting.conversation?.id ?? "";
  const url = `${second.url}/slow/v1/sessions/${conversation}`;
  const types = async (): Promise<string[]> => {
    const { events } = (await (await fetch(`${url}/events?limit=1000`)).json()) as { events: { type: string }[] };
    return events.map(({ type }) => type);
  };
  const { output } = await client.responses.create(asked, asking);
  expect(output.map((item) => "call_id" in item && item.call_id)).toEqual(calls);
  const input = calls.map((call_id, at) => ({ type: "function_call_output" as const, call_id, output: `city ${at}` }));
  const answered = { model: "slow", tools, previous_response_id: waiting.id, input };
  const answering = key();
  const cut = client.responses.create({ ...answered, stream: true }, answering).then(async (events) => {
    for await (const { type } of events) expect(type).not.toBe("response.completed");
  });
  cut.catch(() => undefined);
  await expect.poll(types).toContain("client.answered");
  second.process.kill("SIGKILL");
  await second.ended;
  await cut.catch(() => undefined);

  await startServing([...args, "--port", port]);
  const last = await client.responses.create(answered, answering);
  expect([last.status, last.output_text]).toEqual(["completed", "Got 1, city 0, city 1."]);
  expect((await client.responses.create(answered, answering)).id).toBe(last.id);
  const again = client.responses.create({ model: "slow", tools, conversation, input });
  await expect(again).rejects.toMatchObject({ status: 409, code: "call_not_open" });
  expect((await types()).filter((type) => type === "client.answered")).toHaveLength(1);
  expect(((await (await fetch(`${url}/state`)).json()) as { state: object }).state).toEqual({ count: 1 });
}, 120_000);

test("ONCE: the client's own retry continues the turn of a server that was killed", async () => {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-openai-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const args = ["tests/e2e/agent/slow", "--store", `sqlite:${join(folder, "openai.db")}`, "--lease", "1s"];
  const quick = await startServing([...args, "--port", "0"]);
  const { port } = new URL(quick.url);
  const client = new OpenAI({ apiKey: "none", baseURL: `${quick.url}/slow/v1`, maxRetries: 9 });
  const first = await client.responses.create({ model: "slow", input: "add" });
  quick.process.kill("SIGKILL");
  await quick.ended;
  const slow = await startServing([...args, "--port", port], { env: { SLOW_MS: "60000" } });
  const asking = client.responses.create({ model: "slow", input: "add", previous_response_id: first.id });
  const url = `${slow.url}/slow/v1/sessions`;
  type Page = { sessions: { session: string }[] };
  const found = async (): Promise<Page["sessions"]> => ((await (await fetch(url)).json()) as Page).sessions;
  const state = async (): Promise<unknown> => {
    const [first] = await found();
    return first && ((await (await fetch(`${url}/${first.session}/state`)).json()) as { state: object }).state;
  };
  await expect.poll(state).toEqual({ count: 2 });
  slow.process.kill("SIGKILL");
  await slow.ended;
  await startServing([...args, "--port", port]);
  const { output_text, conversation } = await asking;
  expect([output_text, await state()]).toEqual(["Added one.", { count: 2 }]);
  expect((await found()).map(({ session }) => session)).toEqual([conversation?.id]);
}, 120_000);

test("ONCE: a client that gives up on its own time limit and retries does not run its turn twice", async () => {
  const serving = await startServing(["tests/e2e/agent/slow", "--port", "0"], { env: { SLOW_MS: "1500" } });
  const client = new OpenAI({ apiKey: "none", baseURL: `${serving.url}/slow/v1`, maxRetries: 2, timeout: 700 });
  const asking = client.responses.create({ model: "slow", input: "add" });
  const sessions = async (): Promise<string[]> => {
    const page = (await (await fetch(`${serving.url}/slow/v1/sessions`)).json()) as { sessions: { session: string }[] };
    return page.sessions.map(({ session }) => session);
  };
  // Each attempt continues the turn after its last step. The model never gets the time that it needs.
  await expect(asking).rejects.toThrow();
  const [session, ...others] = await sessions();
  expect(others).toEqual([]);
  const reply = await fetch(`${serving.url}/slow/v1/sessions/${session}/state`);
  expect(((await reply.json()) as { state: object }).state).toEqual({ count: 1 });
}, 120_000);
