// Malicious requests to the model proxy: 20,000 in the full lane. Each gets an answer below 500 in its dialect's shape.
import fc from "fast-check";
import { scriptedModel } from "holdfast";
import { expect, test } from "vitest";
import { runs } from "../runs.ts";
import { post, proxyReplica } from "./proxy-client.ts";

const odd = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom(null, true, [], {}, 0, -1, 2 ** 60, "", "\u0000", "\ud800", JSON.parse('{"__proto__":{"a":1}}')),
  fc.constantFrom(20, 240).map((depth): unknown => JSON.parse(`${'{"a":['.repeat(depth)}1${"]}".repeat(depth)}`)),
  fc.constant(`${"[".repeat(20_000)}${"]".repeat(20_000)}`),
);
/** Mostly right, sometimes odd. */
const mostly = <T>(right: fc.Arbitrary<T>, weight = 8): fc.Arbitrary<unknown> =>
  fc.oneof({ weight, arbitrary: right }, { weight: 1, arbitrary: odd });
const word = fc.constantFrom("a", "call_1", "call_0_0", "add", "mcp__counter", "x".repeat(300));
const types =
  "text image image_url tool_use tool_result thinking redacted_thinking input_text message function_call function_call_output custom_tool_call custom_tool_call_output reasoning item_reference function namespace custom web_search output_text refusal".split(
    " ",
  );
const part = fc.record(
  {
    type: mostly(fc.constantFrom(...types)),
    text: mostly(word),
    id: mostly(word),
    call_id: mostly(word),
    tool_use_id: mostly(word),
    name: mostly(word),
    namespace: mostly(word),
    arguments: mostly(fc.constantFrom("{}", '{"by":1}', "not json")),
    input: mostly(fc.constantFrom<unknown>("text", { by: 1 })),
    output: mostly(word),
    thinking: mostly(word),
    signature: mostly(word),
    data: mostly(word),
    summary: mostly(fc.constant([{ type: "summary_text", text: "hm" }])),
    encrypted_content: mostly(word),
    source: mostly(fc.constant({ type: "url", url: "data:image/png;base64,AA" })),
    image_url: mostly(fc.constant({ url: "data:image/png;base64,AA" })),
    function: mostly(fc.record({ name: mostly(word), arguments: mostly(fc.constant("{}")) })),
    tools: mostly(fc.array(fc.record({ type: fc.constant("function"), name: mostly(word), parameters: odd }))),
    input_schema: mostly(fc.constant({ type: "object" })),
    cache_control: odd,
  },
  { requiredKeys: ["type"] },
);
const content = fc.oneof(fc.string(), fc.array(part, { maxLength: 3 }), odd);
const message = fc.oneof(
  { weight: 2, arbitrary: part },
  {
    weight: 4,
    arbitrary: fc.record(
      {
        role: mostly(fc.constantFrom("user", "assistant", "system", "developer", "tool")),
        content,
        tool_calls: fc.oneof(fc.array(part, { maxLength: 2 }), odd),
        tool_call_id: mostly(word),
        reasoning_content: mostly(word),
      },
      { requiredKeys: ["role"] },
    ),
  },
  { weight: 1, arbitrary: fc.constant({ role: "user", content: "Hello" }) },
);
const body = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record(
      {
        messages: mostly(fc.array(message, { maxLength: 4 })),
        input: mostly(fc.oneof(fc.string(), fc.array(message, { maxLength: 4 }))),
        system: mostly(fc.constantFrom<unknown>("S", [{ type: "text", text: "S" }])),
        instructions: odd,
        tools: mostly(fc.array(part, { maxLength: 3 })),
        tool_choice: odd,
        stream: mostly(fc.boolean()),
        stream_options: odd,
        thinking: odd,
        n: fc.constantFrom(undefined, 1, 2),
        model: odd,
        temperature: odd,
        max_tokens: odd,
      },
      { requiredKeys: ["messages", "input"] },
    ),
  },
  { weight: 1, arbitrary: odd },
);
const printable = fc.stringMatching(/^[ -~]{0,40}$/);
const headers = fc.record(
  {
    "x-stainless-retry-count": fc.constantFrom("0", "1", "-1", "NaN", "1e99", ""),
    "idempotency-key": fc.oneof(fc.constantFrom("k1", "k2"), printable),
    authorization: printable.map((value) => `Bearer ${value}`),
    "x-api-key": printable,
    "content-type": fc.constantFrom("application/json", "text/plain"),
    "anthropic-version": printable,
  },
  { requiredKeys: [] },
);

async function fuzz(count: number): Promise<void> {
  const model = scriptedModel((_, turn) =>
    turn % 2 === 0 ? { text: "hm", calls: [{ name: "add", arguments: { by: 1 } }] } : "Done.",
  );
  const replica = proxyReplica({ model });
  const { session, token } = await replica.seeded();
  const statuses = new Map<number, number>();
  const path = fc.constantFrom(
    `/m/${token}/v1`,
    `/counter/m/${token}/v1`,
    `/ng-rollout/${token}/v1`,
    "/m/x.y/v1",
    "/v1",
  );
  const api = fc.constantFrom("responses", "chat/completions", "messages", "models");
  await fc.assert(
    fc.asyncProperty(body, headers, path, api, async (given, sent, base, name) => {
      const reply = await post(replica, `${base}/${name}`, given, sent);
      statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1);
      const text = await reply.text();
      expect(reply.status, text).toBeLessThan(500);
      if (reply.status === 200) return;
      const shape =
        name === "messages"
          ? { type: "error", error: { type: expect.any(String) } }
          : { error: { type: expect.any(String) } };
      expect(JSON.parse(text)).toMatchObject(shape);
    }),
    { numRuns: runs(count) },
  );
  expect(statuses.get(200)).toBeGreaterThan(runs(count) / 20);
  const { version } = await replica.sessions.info(session);
  expect(version).toBeGreaterThan(10);
  // The log can be read, and still answers.
  expect(await replica.sessions.replay(session)).toMatchObject({ same: true });
  expect((await post(replica, `/m/${token}/v1/responses`, { input: "Hello" })).status).toBe(200);
}

test("1,500 odd requests are answered", () => fuzz(1_500), 60_000);
test("20,000 odd requests are answered", { tags: ["full"], timeout: 600_000 }, () => fuzz(20_000));
