// docs/http-store.md and its OpenAPI document match the store's requests and the example's answers.
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { errorTable, type ErrorCode } from "../../src/core/errors.ts";
import type { Store } from "../../src/core/store.ts";
import { httpStore } from "../../src/stores/http.ts";
import { storeCases } from "../../src/testing/index.ts";
import { fileAt, tableIn } from "../files.ts";
import { hangUp, listen, serveStore } from "./http-server.ts";

const page = fileAt("docs/http-store.md").text;

interface Schema {
  $ref?: string;
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  oneOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  minimum?: number;
  minItems?: number;
}
interface Operation {
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, { content: Record<string, { schema: Schema }> }>;
}
const document = JSON.parse(fileAt("docs/http-store.openapi.json").text) as {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
};

const isType: Record<string, (value: unknown) => boolean> = {
  string: (value) => typeof value === "string",
  boolean: (value) => typeof value === "boolean",
  number: (value) => typeof value === "number",
  integer: Number.isInteger,
  null: (value) => value === null,
  array: Array.isArray,
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
};

/** The mismatches of a value with a schema. Fields that the schema does not name must be absent. */
function misfits(value: unknown, schema: Schema, at = "$"): string[] {
  if (schema.$ref)
    return misfits(value, document.components.schemas[schema.$ref.split("/").at(-1) as string] as Schema, at);
  if (schema.oneOf) {
    const tried = schema.oneOf.map((one) => misfits(value, one, at));
    return tried.filter((found) => found.length === 0).length === 1 ? [] : [`${at} fits none`, ...tried.flat()];
  }
  const types = [schema.type ?? []].flat();
  if (!types.some((type) => isType[type]?.(value))) return [`${at} is no ${types.join(" or ")}`];
  const found: string[] = [];
  if (schema.enum && !schema.enum.includes(value)) found.push(`${at} is none of ${schema.enum.join(", ")}`);
  if (schema.const !== undefined && schema.const !== value) found.push(`${at} is not ${String(schema.const)}`);
  if (schema.minimum !== undefined && (value as number) < schema.minimum) found.push(`${at} is too small`);
  if (Array.isArray(value)) {
    if (value.length < (schema.minItems ?? 0)) found.push(`${at} is too short`);
    found.push(...value.flatMap((item, n) => misfits(item, schema.items as Schema, `${at}[${n}]`)));
  } else if (schema.properties) {
    const fields = value as Record<string, unknown>;
    for (const name of schema.required ?? []) if (!Object.hasOwn(fields, name)) found.push(`${at} has no ${name}`);
    for (const [name, field] of Object.entries(fields)) {
      const known = Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined;
      found.push(...(known ? misfits(field, known, `${at}.${name}`) : [`${at}.${name} is not in the document`]));
    }
  }
  return found;
}

test("the check of the document finds mismatches", () => {
  const schema = document.components.schemas["Listed"] as Schema;
  const row = { session: "a", version: 1, touched: 1, environment: "e", opened: 1 };
  expect(misfits(row, schema)).toEqual([]);
  expect(misfits({ ...row, version: 0, extra: 1, opened: "1" }, schema)).toEqual([
    "$.version is too small",
    "$.opened is no number",
    "$.extra is not in the document",
  ]);
  expect(misfits({ ...row, ended: "tired" }, schema)[0]).toBe("$.ended fits none");
});

test("the OpenAPI document covers all requests of the store and all answers of the example, and nothing else", async () => {
  const { url, dispose } = await serveStore();
  onTestFinished(dispose);
  const seen = new Set<string>();
  const wrong: string[] = [];
  const between = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    const method = request.method as string;
    const init = method === "GET" ? {} : { method, body, headers: { "content-type": "application/json" } };
    const reply = await fetch(url + request.url, init);
    const text = await reply.text();
    const operation = document.paths[request.url as string]?.[method.toLowerCase()] as Operation;
    const asked = operation.requestBody?.content["application/json"]?.schema;
    if (asked) wrong.push(...misfits(JSON.parse(body), asked, `asked ${request.url}`));
    const answered = operation.responses[String(reply.status)] ?? operation.responses["default"];
    const schema = answered?.content["application/json"]?.schema as Schema;
    wrong.push(...misfits(JSON.parse(text), schema, `answered ${request.url} ${reply.status}`));
    seen.add(`${request.url} ${reply.status}`);
    response.writeHead(reply.status).end(text);
  });
  const middle = await listen(between);
  onTestFinished(() => hangUp(between));

  const names = [
    "a listed row has all fields of the heading",
    "a closed store refuses",
    "the sessions idle longest come first",
    "a cursor",
    "an unknown cursor",
    "ATOMIC: a commit with a stale",
    "ONCE: an entry is found by its key",
    "finding an unknown key",
    "reading or loading a missing session",
    "load starts at the newest snapshot",
    "delete returns whether",
    "commits appended together can open, extend",
  ];
  const cases = storeCases.filter(({ name }) => names.some((part) => name.includes(part)));
  expect(cases.length).toBeGreaterThanOrEqual(names.length);
  for (const { run } of cases) {
    await run({ open: () => httpStore({ url: middle }) });
    await empty(await httpStore({ url: middle }));
  }
  expect(wrong).toEqual([]);
  const all = Object.keys(document.paths).map((path) => `${path} 200`);
  expect([...seen].toSorted()).toEqual([...all, "/list 404"].toSorted());
});

async function empty(store: Store): Promise<void> {
  for await (const { session } of store.list()) await store.delete(session);
  await store.close();
}

test("the page has a row for every verb of the document, and an example of each", () => {
  const rows = tableIn(page, "request", "body", "reply").map(([verb]) => verb);
  const verbs = Object.entries(document.paths).map(([path, methods]) => {
    return `\`${Object.keys(methods)[0]?.toUpperCase()} ${path.slice(1)}\``;
  });
  expect(rows).toEqual(verbs);
  for (const path of Object.keys(document.paths))
    expect(exampleOf(page)).toMatch(new RegExp(`(post |8090/)${path.slice(1)}`));
});

test("the page's errors are those of the table", () => {
  for (const [code = "", status] of tableIn(page, "code", "status", "when")) {
    expect(status).toBe(String(errorTable[code.replaceAll("`", "") as ErrorCode].status));
  }
});

const exampleOf = (text: string): string => /## Try it by hand[^]*?```sh\n([^]*?)```/.exec(text)?.[1] as string;

test("the commands of the page print the shown output", async () => {
  const { url, dispose } = await serveStore();
  onTestFinished(dispose);
  const commands = exampleOf(page);
  const printed = commands.split("\n").flatMap((line) => (line.startsWith("# ") ? line.slice(2) : []));
  expect(printed.length).toBe(9);
  const { stdout } = await promisify(execFile)("bash", ["-c", commands.replaceAll("http://127.0.0.1:8090", url)]);
  expect(stdout.replaceAll("}{", "}\n{").trimEnd().split("\n")).toEqual(printed);
});

test("the example refuses unreadable requests in the shape of an error, stores nothing of them and continues", async () => {
  const { url, dispose } = await serveStore();
  onTestFinished(dispose);
  const good = { session: "a", version: 0, entries: [{ body: "1", at: 1 }], heading: { environment: "e", opened: 1 } };
  const odd: [string, unknown][] = [
    ["append", {}],
    ["append", null],
    ["append", { commits: [{}] }],
    ["append", { commits: [good, { ...good, session: "b", heading: undefined }] }],
    ["append", { commits: [good, { ...good, session: "b", entries: [{ at: 1 }] }] }],
    ["append", { commits: [good, good] }],
    ["read", []],
    ["list", { cursor: "x" }],
    ["constructor", {}],
    ["about", {}],
  ];
  for (const [verb, body] of odd) {
    const reply = await fetch(`${url}/${verb}`, { method: "POST", body: JSON.stringify(body) });
    expect([verb, body, reply.ok]).toEqual([verb, body, false]);
    expect(misfits(await reply.json(), document.components.schemas["Error"] as Schema)).toEqual([]);
  }
  expect((await fetch(`${url}/append`, { method: "POST", body: "{" })).status).toBe(400);
  const store = await httpStore({ url });
  onTestFinished(() => store.close());
  expect(await store.read("a", 0)).toBeUndefined();
  expect(await store.count("e")).toBe(0);
});
