// Malicious MCP requests: 20,000 in the full lane. Each gets an answer below 500, and none reaches another client's session.
import fc from "fast-check";
import { defineEnvironment, tool } from "holdfast";
import { expect, test } from "vitest";
import { z } from "zod";
import { legacyVersions } from "../../src/protocols/mcp/era.ts";
import { runs } from "../runs.ts";
import { ask, modern, replicaOf } from "./mcp-client.ts";

const keeper = defineEnvironment({
  name: "keeper",
  state: z.object({ kept: z.unknown().default(null) }),
  unseeded: "defaults",
  tools: {
    keep: tool({
      description: "Keep anything.",
      run: ({ state }, input) => {
        state.kept = input;
        return input;
      },
    }),
    picky: tool({ description: "Take a number.", input: z.object({ x: z.number() }), run: (_, { x }) => x }),
    broken: tool({
      description: "Fail.",
      run: () => {
        throw new Error("it is broken");
      },
    }),
  },
  verify: () => 0.5,
});

const odd = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom(
    null,
    true,
    [],
    {},
    0,
    -1,
    2 ** 60,
    "",
    "\u0000",
    "é".repeat(300),
    JSON.parse('{"__proto__":{"a":1}}'),
  ),
  fc.constantFrom(20, 240).map((depth): unknown => JSON.parse(`${'{"a":['.repeat(depth)}1${"]}".repeat(depth)}`)),
);
const version = fc.constantFrom(...legacyVersions, modern, "2030-01-01", "", "=?base64?MjAyNi0wNy0yOA==?=");
const methods = ["initialize", "tools/call", "tools/call", "tools/list", "server/discover", "ping", "resources/read"];
const method = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...methods, "notifications/cancelled", "notifications/initialized") },
  { weight: 1, arbitrary: odd },
);
const name = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("keep", "picky", "broken", "verify", "seed_session", "__proto__") },
  { weight: 1, arbitrary: odd },
);
const meta = fc.record(
  {
    "io.modelcontextprotocol/protocolVersion": fc.oneof(version, odd),
    "io.modelcontextprotocol/clientCapabilities": fc.oneof(fc.constant({}), odd),
    progressToken: odd,
    callId: odd,
    "dev.holdfast/call": odd,
  },
  { requiredKeys: [] },
);
/** Mostly right, sometimes odd. */
const mostly = <T>(right: fc.Arbitrary<T>, weight = 6): fc.Arbitrary<unknown> =>
  fc.oneof({ weight, arbitrary: right }, { weight: 1, arbitrary: odd });
const params = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record(
      {
        name,
        arguments: mostly(fc.record({ x: fc.integer() }), 3),
        _meta: fc.oneof(
          { weight: 3, arbitrary: fc.constant({}) },
          { weight: 1, arbitrary: meta },
          { weight: 1, arbitrary: odd },
        ),
        requestId: odd,
      },
      { requiredKeys: ["name"] },
    ),
  },
  { weight: 1, arbitrary: odd },
);
const message = fc.record(
  {
    jsonrpc: mostly(fc.constant("2.0"), 20),
    id: mostly(fc.nat(3)),
    method,
    params,
    result: odd,
  },
  { requiredKeys: ["jsonrpc", "method", "id"] },
);
const body = fc.oneof(
  { weight: 10, arbitrary: message },
  { weight: 1, arbitrary: fc.array(message, { maxLength: 3 }) },
  { weight: 1, arbitrary: odd },
);
const text = fc.stringMatching(/^[ -~]{0,40}$/);
const someHeaders = fc.record(
  {
    "mcp-protocol-version": fc.oneof(version, text),
    "mcp-method": fc.oneof(fc.constantFrom(...methods), text),
    "mcp-name": fc.oneof(fc.constantFrom("keep", "=?base64?a2VlcA==?=", "=?base64?!!?="), text),
    "mcp-session-id": text,
    "x-nemo-gym-session-token": text,
    cookie: text.map((value) => `holdfast_keeper=${value}`),
    accept: fc.constantFrom("application/json", "*/*", "text/html", "text/event-stream", ""),
    "holdfast-tools": text,
  },
  { requiredKeys: [] },
);

const headers = fc.oneof({ weight: 2, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: someHeaders });

/** How the request names a session: not at all, its own in the path or the header, or one that it makes up. */
const binding = fc.constantFrom("none", "path", "header", "header", "narrow", "spoiled");

const fuzzed = fc.record({
  body,
  headers,
  binding,
  verb: fc.constantFrom("POST", "POST", "POST", "POST", "GET", "DELETE"),
});

async function fuzz(count: number): Promise<void> {
  const replica = replicaOf(keeper);
  const { sessions, bindings } = replica;
  const { session: bystander } = await sessions.open();
  await sessions.call(bystander, "keep", { mine: true });
  const own = (await sessions.open()).session;
  const victim = bindings.address(bystander).bound_url_path.split("/")[3] ?? "";
  const addresses = { all: bindings.address(own), narrow: bindings.address(own, ["picky"]) };
  const statuses = new Map<number, number>();
  await fc.assert(
    fc.asyncProperty(fuzzed, fc.nat(200), async ({ body, headers, binding, verb }, at) => {
      const place = at % victim.length;
      const spoiled = `${victim.slice(0, place)}${victim[place] === "A" ? "B" : "A"}${victim.slice(place + 1)}`;
      const paths = {
        path: addresses.all.bound_url_path,
        narrow: addresses.narrow.bound_url_path,
        spoiled: `/s/${spoiled}/mcp`,
      };
      const path = binding in paths ? paths[binding as keyof typeof paths] : "/mcp";
      const bound =
        binding === "header" ? { "x-nemo-gym-session-token": addresses.all.bound_url_path.split("/")[3] ?? "" } : {};
      const { status, json } = await ask(replica, { body, verb, path, headers: { ...headers, ...bound } });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      expect(status).toBeLessThan(500);
      if (json !== undefined) expect(json).toMatchObject({ jsonrpc: "2.0" });
    }),
    { numRuns: runs(count) },
  );
  expect(await sessions.state(bystander)).toEqual({ kept: { mine: true } });
  expect((await sessions.info(bystander)).version).toBe(2);
  // It reached the tools: not everything was refused.
  expect(statuses.get(200)).toBeGreaterThan(runs(count) / 20);
  expect((await sessions.info(own)).version).toBeGreaterThan(10);
}

test("2,000 odd requests are answered", () => fuzz(2_000), 60_000);
test("20,000 odd requests are answered", { tags: ["full"], timeout: 300_000 }, () => fuzz(20_000));
