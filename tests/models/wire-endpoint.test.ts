// Where requests go, and that a key never leaks: not in errors, not in the model, not if the server repeats it.
import { inspect } from "node:util";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { anthropicModel } from "../../src/models/anthropic.ts";
import { chatModel } from "../../src/models/chat.ts";
import { openaiModel } from "../../src/models/openai.ts";
import { resolveEndpoint } from "../../src/models/wire/endpoint.ts";
import { cut, json, play, raw, stream, type Reply } from "./server.ts";
import { apis, hello, impatient, key } from "./wire-apis.ts";

const variables = ["OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"];
beforeEach(() => {
  for (const name of variables) vi.stubEnv(name, undefined);
});
afterEach(() => {
  vi.unstubAllEnvs();
});

describe("the base URL", () => {
  test.each([
    ["openai", "https://api.openai.com/v1/responses"],
    ["chat", "https://api.openai.com/v1/chat/completions"],
    ["anthropic", "https://api.anthropic.com/v1/messages"],
  ])("of %s is the API's own unless another is given", (name, url) => {
    const { api } = apis.find(({ api }) => api.name === name) ?? apis[0]!;
    const options = { model: "m", apiKey: key };
    expect(resolveEndpoint(api, options)).toMatchObject({ url, isPublic: true });
    vi.stubEnv(api.urlVariable, "http://proxy.test/a/");
    expect(resolveEndpoint(api, options)).toMatchObject({
      isPublic: false,
      shown: expect.stringMatching(/^http:\/\/proxy\.test\/a\//),
    });
    const given = resolveEndpoint(api, { ...options, baseUrl: "http://127.0.0.1:8000/v1?version=secret-version" });
    expect(given.url).toMatch(/^http:\/\/127\.0\.0\.1:8000\/v1\/[a-z/]+\?version=secret-version$/);
    expect(given.shown).not.toContain("version");
  });

  test.each(["", "127.0.0.1:8000", "ftp://x.test", "http://user:pass@x.test"])("%j is refused", (baseUrl) => {
    if (baseUrl === "") vi.stubEnv("OPENAI_BASE_URL", "nonsense");
    expect(() => chatModel({ model: "m", ...(baseUrl === "" ? {} : { baseUrl }) })).toThrow(
      expect.objectContaining({ code: "invalid_option" }),
    );
  });
});

describe("a key", () => {
  test.each([
    [openaiModel, "OPENAI_API_KEY"],
    [chatModel, "OPENAI_API_KEY"],
    [anthropicModel, "ANTHROPIC_API_KEY"],
  ])("%o without one for the public API names the variable to set", (make, variable) => {
    expect(() => make({ model: "m" })).toThrow(
      expect.objectContaining({ code: "invalid_option", message: expect.stringContaining(`set ${variable}`) }),
    );
    vi.stubEnv(variable, "k\n");
    expect(make({ model: "m" }).name).toMatch(/:m$/);
  });

  test.each(apis.map(({ api, whole }) => ({ name: api.name, api, whole })))(
    "of $name comes from the environment, without its line end, and is optional elsewhere",
    async ({ api, whole }) => {
      const server = await play(json(whole));
      await impatient(api, server.url, { apiKey: undefined as never }).model.respond(hello);
      vi.stubEnv(api.keyVariable, "from-env\n");
      await impatient(api, server.url, { apiKey: undefined as never }).model.respond(hello);
      const [header, value] = Object.entries(api.keyHeader("from-env"))[0] ?? [];
      expect(server.asked.map(({ headers }) => headers[header ?? ""])).toEqual([undefined, value]);
    },
  );

  test("that a header cannot carry is refused, and not shown", () => {
    vi.stubEnv("OPENAI_API_KEY", "sk-ключ");
    const error = thrownBy(() => openaiModel({ model: "m" }));
    expect(error).toMatchObject({ code: "invalid_option", message: expect.stringContaining("OPENAI_API_KEY") });
    expect(inspect(error)).not.toContain("ключ");
  });
});

test("headers are sent, and override ours", async () => {
  const server = await play(json(apis[2]?.whole));
  const headers = { "X-Team": "blue", "Anthropic-Version": "2099-01-01" };
  await anthropicModel({ model: "m", baseUrl: server.url, headers }).respond(hello);
  expect(server.asked[0]?.headers).toMatchObject({ "x-team": "blue", "anthropic-version": "2099-01-01" });
});

describe.each(apis.map(({ api }) => ({ name: api.name, api })))("$name never shows a key", ({ api }) => {
  const spelled = [key, encodeURIComponent(key), "other-secret-1234", "query-secret-1234"];
  const echo = `got ${spelled.join(" and ")}`;
  const shows = (value: unknown): string[] => {
    const texts = [
      inspect(value, { depth: 20, showHidden: true }),
      JSON.stringify(value),
      String((value as Error).stack),
    ];
    // Nor the start of a key where a long text was cut.
    return spelled.filter((secret) => texts.some((text) => text.includes(secret.slice(0, 6))));
  };

  const replies: [string, Reply][] = [
    ["a refusal", json({ error: { message: echo, code: echo, type: echo } }, 401)],
    ["a refusal of another shape", json({ detail: [{ msg: echo }] }, 400)],
    ["a page", raw(`<html>${echo}`, { "content-type": "text/html" })],
    ...[479, 483, 487, 491].map((length): [string, Reply] => [
      `a page of ${length} characters and more`,
      raw(`<html>${"x".repeat(length)}${echo}`, { "content-type": "text/html" }, 500),
    ]),
    [
      "an error in a stream",
      stream(`data: ${JSON.stringify({ type: "error", error: { message: echo, type: echo } })}\n\n`),
    ],
    ["an event that is no JSON", stream(`data: ${echo}\n\n`)],
    ["what is not HTTP", (response) => response.socket?.end(`${echo}\r\n\r\n`)],
    ["half an answer", cut(echo, "application/json")],
  ];

  test.each(replies)("in the error of %s that repeats it", async (_, reply) => {
    const server = await play(reply);
    const headers = { "x-other-token": "other-secret-1234" };
    const baseUrl = `${server.url}/?sig=query-secret-1234`;
    const { model } = impatient(api, baseUrl, { attempts: 1, headers });
    const error = await model.respond(hello, { onPiece: () => undefined }).then(
      () => expect.unreachable(),
      (error: unknown) => error,
    );
    expect(error).toMatchObject({ code: expect.stringMatching(/^model_/) });
    expect(shows(error)).toEqual([]);
    expect(shows(model)).toEqual([]);
  });
});

test.each([
  { model: "" },
  { model: "m", attempts: 0 },
  { model: "m", attempts: 21 },
  { model: "m", attempts: 1.5 },
  { model: "m", timeout: 0 },
  { model: "m", timeout: Infinity },
  { model: "m", headers: { "x-bad": "a\nb" } },
])("the options %j are refused", (options) => {
  const error = thrownBy(() => chatModel({ baseUrl: "http://127.0.0.1:1", ...options }));
  expect(error).toMatchObject({ code: "invalid_option" });
});

function thrownBy(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  return undefined;
}
