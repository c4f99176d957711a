// The model proxy over a real port: the server is killed between and during exchanges, and none is recorded twice.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { expect, onTestFinished, test } from "vitest";
import { json, play, raw, type Reply as ModelReply } from "../models/server.ts";
import { startServing } from "./serve-process.ts";

const headers = { "content-type": "application/json" };

/** Answers with the number of the request. */
const numbered = (): ModelReply => {
  let count = 0;
  return (response, asked) =>
    json({
      id: `c${++count}`,
      choices: [{ message: { role: "assistant", content: `answer ${count}` }, finish_reason: "stop" }],
      usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
      prompt_token_ids: [1, 2],
    })(response, asked);
};

async function seeded(origin: string) {
  const body = JSON.stringify({ initial_count: 3, expected_count: 3 });
  const reply = await fetch(`${origin}/seed_session`, { method: "POST", headers, body });
  const cookie = reply.headers.get("set-cookie")?.split(";")[0] ?? "";
  const { session_id: session, mcp } = (await reply.json()) as { session_id: string; mcp: { model_url_path: string } };
  return { session, cookie, path: mcp.model_url_path };
}

test("ONCE: a client that retries over kills of the server gets each answer once", async () => {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-proxy-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const model = await play(numbered());
  const env = { OPENAI_BASE_URL: `${model.url}/v1`, OPENAI_API_KEY: "k" };
  const args = ["examples/counter", "--store", `sqlite:${join(folder, "sessions.db")}`, "--proxy", "chat:m"];
  let serving = await startServing([...args, "--port", "0"], { env });
  const { port, origin } = new URL(serving.url);
  const restart = async (): Promise<void> => {
    serving.process.kill("SIGKILL");
    await serving.ended;
    serving = await startServing([...args, "--port", port], { env });
  };
  const { session, cookie, path } = await seeded(origin);
  const client = new OpenAI({ apiKey: "none", baseURL: `${origin}${path}`, maxRetries: 0 });
  const ask = (text: string, retry = 0) =>
    client.chat.completions
      .create(
        { model: "x", messages: [{ role: "user", content: text }] },
        { headers: { "x-stainless-retry-count": String(retry) } },
      )
      .then(({ choices }) => choices[0]?.message.content);

  expect(await ask("one")).toBe("answer 1");
  await restart();
  // The retry is answered by the log of the killed server.
  expect(await ask("one", 1)).toBe("answer 1");
  expect(model.asked).toHaveLength(1);
  for (let round = 0; round < 3; round++) {
    const asking = Promise.all(Array.from({ length: 8 }, (_, at) => persisted(`${round} ${at}`)));
    await new Promise((resolve) => setTimeout(resolve, 20 * round));
    await restart();
    await asking;
  }
  async function persisted(text: string): Promise<unknown> {
    for (let retry = 0; ; retry++) {
      const answer = await ask(text, retry).catch(() => undefined);
      if (answer !== undefined || retry > 200) return answer;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  const { events } = (await (await fetch(`${origin}/v1/sessions/${session}/events?limit=1000`)).json()) as {
    events: { type: string; digest?: string }[];
  };
  const digests = events.flatMap(({ type, digest }) => (type === "model.called" ? [digest] : []));
  expect(digests).toHaveLength(25);
  expect(new Set(digests).size).toBe(25);

  const large = await fetch(`${origin}${path}/messages`, {
    method: "POST",
    headers,
    body: JSON.stringify({ large: "x".repeat(10_000_000) }),
  });
  expect({ status: large.status, body: await large.json() }).toMatchObject({
    status: 413,
    body: { type: "error", error: { type: "request_too_large" } },
  });
  const verify = { method: "POST", headers: { ...headers, cookie }, body: '{"response":{"output":[]}}' };
  expect(await (await fetch(`${origin}/verify`, verify)).json()).toMatchObject({ reward: 1 });
  await expect(ask("late")).rejects.toMatchObject({ status: 409, code: "episode_over" });
});

test("a model that sends broken streams and bodies is reported in the dialect's shape, and nothing is recorded", async () => {
  const broken = await play(raw("not json", {}), raw("data: {\n\n", { "content-type": "text/event-stream" }), json({}));
  const env = { OPENAI_BASE_URL: `${broken.url}/v1`, OPENAI_API_KEY: "k" };
  const { url } = await startServing(
    ["examples/counter", "--port", "0", "--proxy", "chat:m", "--token", "secret-token"],
    { env },
  );
  const { session, path } = await seeded(url);
  for (const api of ["chat/completions", "messages"]) {
    const body = { model: "x", max_tokens: 5, input: "Hi", messages: [{ role: "user", content: "Hi" }] };
    const reply = await fetch(`${url}${path}/${api}`, { method: "POST", headers, body: JSON.stringify(body) });
    expect(reply.status).toBe(502);
    expect(await reply.json()).toMatchObject({ error: { message: expect.any(String), type: expect.any(String) } });
  }
  const log = await fetch(`${url}/v1/sessions/${session}/events`, {
    headers: { authorization: "Bearer secret-token" },
  });
  expect(((await log.json()) as { events: object[] }).events).toHaveLength(2);
  // The session's token takes the place of the server's, but only for models.
  const token = path.split("/")[3] as string;
  const keyed = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${token}` } });
  expect(keyed.status).toBe(200);
  expect((await fetch(`${url}/v1/sessions`, { headers: { authorization: `Bearer ${token}` } })).status).toBe(401);
}, 60_000);

test("a request of 5 MB reaches the model of serve --proxy", async () => {
  const { url } = await startServing(["examples/counter", "--port", "0", "--proxy", "random"]);
  const { origin } = new URL(url);
  const { path } = await seeded(origin);
  const body = JSON.stringify({ messages: [{ role: "user", content: "x".repeat(5_000_000) }] });
  const reply = await fetch(`${origin}${path}/chat/completions`, { method: "POST", headers, body });
  expect(reply.status).toBe(200);
});
