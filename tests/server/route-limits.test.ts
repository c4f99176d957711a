// The table in docs/operations.md lists every route of the code with its limits.
import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import type { FieldSchema } from "../../src/protocols/http/field-schema.ts";
import { rolloutRoutes } from "../../src/protocols/rest/rollout-routes.ts";
import { conversationRoutes } from "../../src/protocols/rest/conversation-routes.ts";
import { episodeRoutes, type Route } from "../../src/protocols/rest/routes.ts";
import { limitsWith } from "../../src/server/limits.ts";

interface Bounds {
  /** How many rows, events or versions one request concerns. */
  rows?: string;
  /** The size of the reply. */
  out: string;
  /** How long the server works on the request, not counting 5 s for each call of the store. */
  time?: string;
}

type Name = keyof typeof episodeRoutes | keyof typeof conversationRoutes | keyof typeof rolloutRoutes;

const authors = "60 s for the author's code, or its own `timeout`";
const page = "a page of 4 MiB, or one larger item";
/** A new route does not compile without its bounds. */
const bounds: Record<Name, Bounds> = {
  environment: { out: "the schemas" },
  agent: { out: "the schemas" },
  listSplits: { rows: "the files of tasks, read once", out: "a number for each split" },
  listTasks: { rows: "the file, read once", out: page },
  openSession: { out: "the labels", time: authors },
  listSessions: { out: page },
  getSession: { out: "the labels" },
  closeSession: { out: "one field" },
  getState: { out: "the state" },
  listEvents: { out: `${page}; a stream waits for its reader` },
  forkSession: { out: "the labels" },
  rewindSession: { out: "the labels" },
  replaySession: { rows: "the log, in pages", out: "the first difference", time: authors },
  expireSessions: { out: "one number" },
  openapi: { out: "the schemas, built once" },
  docs: { out: "one page" },
  callTool: { out: "the output", time: authors },
  seedSession: { out: "the labels", time: authors },
  verifySession: { out: "the verdict", time: authors },
  sessionRewards: { rows: "1,000 versions", out: "a number for each version", time: authors },
  playSession: {
    rows: "1,000 steps, 20 by default",
    out: "the new events",
    time: "until the model ends, or the client leaves",
  },
  startRollouts: {
    rows: "`--rollouts` concurrent episodes",
    out: "a stream, sent only as fast as the client reads",
    time: "until the last rollout ends, also without the client",
  },
  readRollouts: { out: "a stream, sent only as fast as the client reads", time: "until the last rollout ends" },
  listRollouts: { out: "six fields for each request" },
  cancelRollouts: { out: "one field" },
  runAgent: { out: "the events of the turn", time: "until the agent ends, or the client leaves" },
  issueToken: { out: "the token" },
  labelSession: { out: "the labels" },
  cancelTurn: { out: "one field", time: "1 s for a run that ignores the cancellation" },
};

/** Routes without a table of data in the code. */
const others: { route: string; takesBody: boolean; bounds: Bounds }[] = [
  { route: "GET /healthz", takesBody: false, bounds: { out: "one field" } },
  { route: "GET /readyz", takesBody: false, bounds: { out: "one field", time: "2 s for the store" } },
  { route: "GET /metrics", takesBody: false, bounds: { rows: "one series per tool", out: "the series" } },
  { route: "GET /", takesBody: false, bounds: { out: "one field" } },
  { route: "GET /reverify_mode", takesBody: false, bounds: { out: "one word" } },
  { route: "POST /seed_session", takesBody: true, bounds: { out: "three fields", time: authors } },
  { route: "POST /{tool}", takesBody: true, bounds: { out: "the output", time: authors } },
  { route: "POST /verify", takesBody: true, bounds: { out: "the row and the verdict", time: authors } },
  { route: "POST /mcp", takesBody: true, bounds: { out: "the output, or the schemas of the tools", time: authors } },
  { route: "DELETE /mcp", takesBody: false, bounds: { out: "nothing" } },
  { route: "POST /close_session", takesBody: true, bounds: { out: "one field" } },
  {
    route: "POST /aggregate_metrics",
    takesBody: true,
    bounds: { rows: "100,000 rows", out: "the metrics of each task", time: "slices of 5 ms; 16 concurrent requests" },
  },
  { route: "POST /run", takesBody: true, bounds: { out: "the row and the rollout", time: "`--timeout`" } },
  { route: "GET /v1/about", takesBody: false, bounds: { out: "the names" } },
  { route: "GET /v1/curves", takesBody: false, bounds: { rows: "all rows", out: "numbers of each iteration" } },
  { route: "GET /v1/runs/{run}", takesBody: false, bounds: { out: "the settings" } },
  {
    route: "GET /v1/runs/{run}/rows",
    takesBody: false,
    bounds: { out: "a stream, sent only as fast as the client reads" },
  },
  {
    route: "GET /v1/runs/{run}/search",
    takesBody: false,
    bounds: { rows: "the whole file", out: "a stream, sent only as fast as the client reads" },
  },
  {
    route: "GET /v1/runs/{run}/totals",
    takesBody: false,
    bounds: { rows: "the whole file", out: "seven numbers" },
  },
  { route: "GET /v1/runs/{run}/rows/{row}", takesBody: false, bounds: { rows: "1 row", out: "the row" } },
  { route: "GET /view", takesBody: false, bounds: { out: "one file" } },
];

function tableOf(): string {
  const bytes = limitsWith().body.toLocaleString("en");
  const line = (route: string, takesBody: boolean, { rows = "", out, time = "" }: Bounds): string =>
    [`| \`${route}\``, takesBody ? bytes : "no body", rows, out, time, ""].join(" | ").replaceAll("|  |", "| |").trim();
  const routes = new Map<string, string>(others.map((row) => [row.route, line(row.route, row.takesBody, row.bounds)]));
  const tables = [episodeRoutes, rolloutRoutes, conversationRoutes];
  for (const [name, route] of tables.flatMap((table) => Object.entries<Route>(table))) {
    const { method, path, query, body }: Route = route;
    const most = (query as FieldSchema | undefined)?.properties?.["limit"]?.maximum;
    const rows = most === undefined ? {} : { rows: `${most.toLocaleString("en")} items` };
    const key = `${method} ${path}`;
    routes.set(key, line(key, body !== undefined, { ...rows, ...bounds[name as Name] }));
  }
  const head = "| route | bytes in | rows | bytes out | time |\n| --- | --- | --- | --- | --- |";
  return [head, ...routes.values()].join("\n");
}

test("docs/operations.md has every route with its limits", async () => {
  const docs = await readFile("docs/operations.md", "utf8");
  const [, table] = /^### Every route\n\n(?:[^|\n].*\n)*\n(\| route [^]*?)\n\n/m.exec(docs) ?? [];
  expect(table).toBe(tableOf());
});
