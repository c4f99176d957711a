// The viewer's API of a server: its contents, and the rows of runs.
import { isHoldfastError } from "holdfast";
import { expect, test } from "vitest";
import type { Reply } from "../../src/core/protocol.ts";
import type { RowSummary, Collection } from "../../src/rollout/collection-view.ts";
import { collectionsProtocol } from "../../src/protocols/collections.ts";
import { requestOf } from "./rest-client.ts";

const details = {
  run: "0",
  name: "a",
  file: "runs/a.jsonl",
  environment: "counter",
  model: "scripted",
  settings: { seed: 1 },
  sessions: true,
};
const summaries = (...rows: number[]): RowSummary[] => rows.map((row) => ({ row }) as RowSummary);

const totals = { rollouts: 3, tasks: 1, failed: 0, reward: 1, tokens: null, began: null, wallSeconds: null };

const collection: Collection = {
  details,
  async *rows() {
    yield summaries(0, 1);
    yield summaries(2);
  },
  async *search(text) {
    yield text === "lost" ? [1, 2] : [];
  },
  totals: async () => totals,
  row: async (number) => (number < 3 ? { n: number } : undefined),
};

const about = { version: "1.2.3", environments: [], agents: [], models: ["random"] };
const protocol = collectionsProtocol({ about, collections: [collection] });

async function ask(path: string, method = "GET"): Promise<Reply | undefined> {
  try {
    return await protocol.handle(requestOf(method, path));
  } catch (thrown) {
    if (!isHoldfastError(thrown)) throw thrown;
    return { status: thrown.status, body: thrown.toJSON() };
  }
}

test("about lists the contents, with a summary of each run", async () => {
  const { settings: _, sessions: __, ...listed } = details;
  expect(await ask("/v1/about")).toEqual({ status: 200, body: { ...about, runs: [listed] } });
});

test("a run has its details, and each whole row by its number", async () => {
  expect(await ask("/v1/runs/0")).toEqual({ status: 200, body: details });
  expect(await ask("/v1/runs/0/rows/2")).toEqual({ status: 200, body: { row: { n: 2 } } });
});

test("a run has totals, and a search that streams lists of rows", async () => {
  expect(await ask("/v1/runs/0/totals")).toEqual({ status: 200, body: totals });
  const { stream } = (await protocol.handle(requestOf("GET", "/v1/runs/0/search?text=lost"))) as Reply;
  const lines: string[] = [];
  for await (const text of stream as AsyncIterable<string>) lines.push(text);
  expect(lines).toEqual(["[1,2]\n"]);
});

test("rows are lines, each a list", async () => {
  const { status, headers, stream } = (await ask("/v1/runs/0/rows")) as Reply;
  expect([status, headers]).toEqual([200, { "content-type": "application/x-ndjson" }]);
  const lines: string[] = [];
  for await (const text of stream as AsyncIterable<string>) lines.push(text);
  expect(lines).toEqual(['[{"row":0},{"row":1}]\n', '[{"row":2}]\n']);
});

test.each([
  "/v1/runs",
  "/v1/runs/",
  "/v1/runs/1",
  "/v1/runs/00",
  "/v1/runs/%30",
  "/v1/runs/1/rows",
  "/v1/runs/0/",
  "/v1/runs/0/x",
  "/v1/runs/0/rows/",
  "/v1/runs/0/rows/3",
  "/v1/runs/0/rows/-1",
  "/v1/runs/0/rows/1.0",
  "/v1/runs/0/rows/1e0",
  "/v1/runs/0/rows/ 1",
  "/v1/runs/0/rows/99999999999999999999",
  "/v1/runs/0/rows/1/2",
  "/v1/runs/0/search/1",
  "/v1/runs/0/totals/1",
  "/v1/runs/__proto__",
])("%s is not there", async (path) => {
  expect(await ask(path)).toMatchObject({ status: 404, body: { error: { code: "not_found" } } });
});

test.each(["POST", "DELETE", "PUT"])("%s changes nothing", async (method) => {
  for (const path of ["/v1/about", "/v1/runs/0", "/v1/runs/0/rows"]) {
    expect(await ask(path, method)).toMatchObject({ status: 405, body: { error: { detail: { allow: ["GET"] } } } });
  }
});

test.each(["/", "/v1", "/v1/sessions", "/v1/aboutness", "/v1/runsome", "/counter/v1/about"])(
  "%s belongs to another part of the server",
  async (path) => {
    expect(await ask(path)).toBeUndefined();
  },
);
