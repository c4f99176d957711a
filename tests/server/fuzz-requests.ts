// Random malicious or malformed requests from fast-check, and their bytes.
import { METHODS } from "node:http";
import fc from "fast-check";

/** The cookie of a request: its own client's, plain or quoted; an invalid one; one of another environment. */
export type FuzzedCookie =
  | { kind: "none" }
  | { kind: "own" | "quoted"; client: number }
  | { kind: "spoiled"; victim: number; spoil: number; at: number }
  | { kind: "forged" | "foreign"; victim: number }
  | { kind: "raw"; text: string };

export const framings = [
  ...(["length", "chunked", "none"] as const),
  ...(["short", "long", "twice", "both", "bad length", "bad chunk", "cut chunk", "cut head", "no host"] as const),
];
type Framing = (typeof framings)[number];

export interface Fuzzed {
  method: string;
  /** OWN0 to OWN3 stand for the sender's own session ids, VICTIM0 … for those of others. */
  path: string;
  cookie: FuzzedCookie;
  /** Adds a valid cookie of client 0 after the other one. */
  alsoOwn: boolean;
  /** The server's bearer token, a wrong one, or none. */
  bearer: "right" | "wrong" | "none";
  headers: [name: string, value: string][];
  body: Buffer;
  framing: Framing;
}

const nested = (depth: number): string => `${'{"a":['.repeat(depth)}1${"]}".repeat(depth)}`;

const names = [
  "initial_count",
  "expected_count",
  "count",
  "response",
  "responses_create_params",
  "verify_responses",
  "x",
  "_ng_session_id",
  "_ng_rollout_id",
  "_ng_task_index",
  "reward",
  "session_id",
  "episode",
  "session",
  "tool",
  "input",
  "call",
  "task",
  "random",
  "labels",
  "version",
  "limit",
  "after",
  "open",
  "__proto__",
  "constructor",
  "prototype",
  "toJSON",
  "then",
  "length",
  "hasOwnProperty",
  "",
];

// Text, because JSON.stringify would not write some of these.
const value: fc.Arbitrary<string> = fc.oneof(
  { weight: 4, arbitrary: fc.jsonValue({ maxDepth: 3 }).map((made) => JSON.stringify(made)) },
  { weight: 2, arbitrary: fc.integer({ min: -5, max: 5 }).map(String) },
  { weight: 2, arbitrary: fc.constantFrom("1e999", "-1e999", "-0", "9007199254740993", "1".repeat(400), "1e-400") },
  { weight: 1, arbitrary: fc.constantFrom('"\\ud800"', '"\\u0000"', '"\\udfff\\ud800"', `"${"é".repeat(999)}"`) },
  { weight: 2, arbitrary: fc.constantFrom("null", "true", "[]", "{}", '""', '{"__proto__":{"count":1}}', '"read"') },
  { weight: 1, arbitrary: fc.constantFrom(20, 249, 251, 600, 2_000).map(nested) },
);
const object = fc
  .array(fc.tuple(fc.constantFrom(...names), value), { maxLength: 5 })
  // Names may be duplicated.
  .map((fields) => `{${fields.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(",")}}`);
const tool = fc.constantFrom("increment_counter", "get_counter_value", "say", "crash", "picky", "keep", "__proto__");
const count = fc.integer({ min: -9, max: 9 });
const sensible = fc.oneof(
  count.map((count) => JSON.stringify({ count })),
  count.map((initial_count) => JSON.stringify({ initial_count, expected_count: 3 })),
  count.map((initial_count) => JSON.stringify({ task: { initial_count } })),
  fc.tuple(tool, value).map(([tool, input]) => `{"tool":"${tool}","input":${input}}`),
  fc.integer({ min: 1, max: 6 }).map((version) => JSON.stringify({ version })),
);
const notJson = fc.constantFrom(
  "{",
  "}",
  "nonsense",
  "'a'",
  "{a:1}",
  "[1,]",
  "NaN",
  "Infinity",
  "undefined",
  " ",
  "\uFEFF{}",
  "{} {}",
  "//",
  "01",
  '{"count":1',
  '{"count":+1}',
  '"\t"',
  "[".repeat(5_000),
  '{"a":'.repeat(700),
  "\u0000",
  "count=1&x=2",
);
const text: fc.Arbitrary<string> = fc.oneof(
  { weight: 12, arbitrary: sensible },
  { weight: 6, arbitrary: object },
  { weight: 2, arbitrary: value },
  { weight: 3, arbitrary: notJson },
  { weight: 1, arbitrary: fc.constantFrom(25_000, 60_000).map((length) => `"${"x".repeat(length)}"`) },
);
const bytes = fc.oneof(
  { weight: 16, arbitrary: text.map((text) => Buffer.from(text)) },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)) },
  {
    weight: 2,
    arbitrary: fc.tuple(text, fc.nat(), fc.constantFrom(0, 0x80, 0xc0, 0xed, 0xf8, 0xff)).map(([text, at, byte]) => {
      const spoiled = Buffer.from(text);
      spoiled[at % spoiled.length] = byte;
      return spoiled;
    }),
  },
  { weight: 1, arbitrary: fc.constant(Buffer.alloc(0)) },
);

const known = fc.oneof(
  fc.constantFrom("seed_session", "seed_session", "verify", "close_session", "aggregate_metrics", "reverify_mode"),
  fc.constantFrom("increment_counter", "increment_counter", "get_counter_value", "say", "crash", "picky", "keep"),
);
const odd = fc.oneof(
  fc.constantFrom("%73eed_session", "verif%79", "%2Fverify", "%", "%zz", "%ff", "%00", "..", ".", "", "__proto__"),
  fc.constantFrom("constructor", "ng-rollout", "SEED_SESSION", "verify%20", "verify;a=b", "verify?a=%", "verify#a"),
  fc.constantFrom("%2e%2e", "..%2f..%2fetc%2fpasswd", "x".repeat(5_000), "%41".repeat(3_000), "x".repeat(40_000)),
  fc.string({ unit: "binary", maxLength: 20 }).map((text) => encodeURIComponent(text)),
  fc.string({ maxLength: 40 }),
);
const segment = fc.oneof({ weight: 4, arbitrary: known }, { weight: 1, arbitrary: odd });
const gymPath = fc.oneof(
  { weight: 8, arbitrary: segment.map((name) => `/${name}`) },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.oneof(fc.constant("4-1"), odd), segment).map((at) => `/ng-rollout/${at.join("/")}`),
  },
  { weight: 1, arbitrary: fc.array(segment, { maxLength: 4 }).map((all) => `/${all.join("/")}`) },
  { weight: 1, arbitrary: fc.constantFrom("/", "//", "//verify", "/./verify", "/../verify", "*", "", "verify") },
  { weight: 1, arbitrary: fc.constantFrom("http://x/verify", "http://[/verify", "/metrics", "/healthz", "/readyz") },
);
const id = fc.oneof(
  { weight: 6, arbitrary: fc.nat(3).map((at) => `OWN${at}`) },
  { weight: 2, arbitrary: odd },
  { weight: 1, arbitrary: fc.constantFrom("holdfast:keys", "holdfast%3Akeys", "holdfast:ready", "{id}") },
);
const verb = fc.constantFrom(
  "",
  "/state",
  "/events",
  "/call",
  "/call",
  "/seed",
  "/verify",
  "/fork",
  "/rewind",
  "/replay",
);
const query = fc.oneof(
  { weight: 5, arbitrary: fc.constant("") },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.constantFrom(...names, "idle_before", "opened_before"), fc.oneof(fc.string(), fc.integer().map(String)))
      .map(([name, value]) => `?${encodeURIComponent(name)}=${encodeURIComponent(value)}`),
  },
  { weight: 1, arbitrary: fc.constantFrom("?", "?&&", "?version=1e999", "?after=%", "?limit=1000&limit=1") },
);
const restPath = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(id, verb, query).map(([id, verb, query]) => `/v1/sessions/${id}${verb}${query}`) },
  { weight: 2, arbitrary: query.map((query) => `/v1/sessions${query}`) },
  { weight: 1, arbitrary: fc.constantFrom("/v1", "/v1/", "/v1/environment", "/v1/x", "/openapi.json", "/docs") },
);
/** Attempts on sessions of others without the server's token, in spellings that a guard may miss. */
const guardedPath = fc
  .tuple(fc.constantFrom("/v1", "/v1", "/%76%31", "//v1", "/V1", "/v%31", "/./v1", "/x/../v1"), fc.nat(11), verb)
  .map(([base, victim, verb]) => `${base}/sessions/VICTIM${victim}${verb}`);

const method = fc.oneof(
  { weight: 12, arbitrary: fc.constant("POST") },
  { weight: 4, arbitrary: fc.constant("GET") },
  {
    weight: 2,
    arbitrary: fc.constantFrom("PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "PROPFIND", "M-SEARCH"),
  },
  { weight: 1, arbitrary: fc.constantFrom("post", "BREW", "CONNECT", "__proto__", "G ET", "") },
);
const oddValue = fc.oneof(
  fc.constantFrom(
    "",
    "1",
    "0",
    "-1",
    "1e3",
    "k",
    "k",
    "k".repeat(257),
    "k".repeat(9_000),
    '"k"',
    "__proto__",
    "\u00ff",
  ),
  fc.string({ maxLength: 20 }),
);
const header: fc.Arbitrary<[name: string, value: string]> = fc.oneof(
  { weight: 4, arbitrary: fc.tuple(fc.constant("idempotency-key"), oddValue) },
  { weight: 1, arbitrary: fc.tuple(fc.constantFrom("holdfast-episode", "last-event-id", "set-cookie", "x"), oddValue) },
  { weight: 1, arbitrary: fc.tuple(fc.constant("expect"), fc.constantFrom("x", "", "200-ok")) },
  { weight: 1, arbitrary: fc.tuple(fc.constant("accept"), fc.constantFrom("text/event-stream", "*/*", "")) },
  {
    weight: 1,
    arbitrary: fc.tuple(
      fc.constant("content-type"),
      fc.oneof(
        fc.constantFrom("text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", ""),
        fc.constantFrom("application/json; charset=utf-8", "multipart/form-data; boundary=x", "application/jsonp"),
        fc.string({ maxLength: 30 }),
      ),
    ),
  },
  { weight: 1, arbitrary: fc.tuple(fc.constant("content-encoding"), fc.constantFrom("gzip", "identity", "x", "")) },
  { weight: 1, arbitrary: fc.constantFrom<[string, string]>(["expect", "100-continue"], ["upgrade", "websocket"]) },
  { weight: 1, arbitrary: fc.constantFrom<[string, string]>(["connection", "close"], ["__proto__", "x"], ["te", "x"]) },
);
const framing = fc.oneof(
  { weight: 10, arbitrary: fc.constant<Framing>("length") },
  { weight: 2, arbitrary: fc.constantFrom<Framing>("chunked", "none") },
  { weight: 1, arbitrary: fc.constantFrom<Framing>(...framings) },
);

/** The part of a cookie before its signature. Without its version, which comes last, a cookie is still valid. */
const unsigned = (cookie: string): string => cookie.slice(0, cookie.indexOf("."));

/** Modifications of another client's valid cookie. None of them leaves it valid. */
export const spoiled: ((cookie: string, at: number) => string)[] = [
  (cookie, at) => cookie.slice(0, at % cookie.lastIndexOf(".")),
  (cookie, at) => {
    const [name = "", token = ""] = cookie.split("=");
    const place = at % token.length;
    return `${name}=${token.slice(0, place)}${token[place] === "A" ? "B" : "A"}${token.slice(place + 1)}`;
  },
  (cookie) => cookie.replace("=", "=new."),
  (cookie) => unsigned(cookie),
  (cookie) => `${unsigned(cookie)}.${"A".repeat(43)}`,
  (cookie) => cookie.replace("holdfast", "Holdfast"),
  (cookie) => `${cookie}=`,
  (cookie) => cookie.replace("=", '="'),
  (cookie) => cookie.replace("=", "= ; "),
  (cookie) => cookie.replace("=", '="\\'),
];

const cookie: fc.Arbitrary<FuzzedCookie> = fc.oneof(
  { weight: 1, arbitrary: fc.constant<FuzzedCookie>({ kind: "none" }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constantFrom("own", "own", "quoted"), client: fc.nat(3) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("spoiled"),
      victim: fc.nat(11),
      spoil: fc.nat(spoiled.length - 1),
      at: fc.nat(200),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom("forged", "foreign"), victim: fc.nat(11) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("raw"),
      text: fc.oneof(fc.string(), fc.constantFrom(";;;", "=", '"', "\\", "a=b", "x".repeat(8_000), "\u00ff=\u0080")),
    }),
  },
);

const anything = {
  method,
  cookie,
  alsoOwn: fc.boolean(),
  body: bytes,
  framing,
  headers: fc.array(header, { maxLength: 2 }),
};
/** Almost valid requests, whose errors appear deeper in the server. */
const nearly = {
  method: fc.constant("POST"),
  cookie,
  alsoOwn: fc.boolean(),
  framing: fc.constantFrom<Framing>("length", "chunked"),
  headers: fc.array(fc.tuple(fc.constant("idempotency-key"), oddValue), { maxLength: 1 }),
  body: fc.oneof(sensible, sensible, object).map((text) => Buffer.from(text)),
};
const prefix = fc.constantFrom("", "", "/gym-counter", "/keeper", "/keeper");
const below = (path: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  // A prefix would turn an invalid path into a path.
  fc.tuple(prefix, path).map(([prefix, path]) => (path[0] === "/" ? prefix + path : path));
const none = fc.constant("none" as const);
const mostlyRight = fc.constantFrom("right", "right", "right", "right", "wrong", "none");

export const fuzzed: fc.Arbitrary<Fuzzed> = fc.oneof(
  { weight: 7, arbitrary: fc.record({ ...anything, path: below(gymPath), bearer: none }) },
  { weight: 3, arbitrary: fc.record({ ...anything, path: below(restPath), bearer: mostlyRight }) },
  {
    weight: 1,
    arbitrary: fc.record({ ...anything, path: below(guardedPath), bearer: fc.constantFrom("wrong", "none") }),
  },
  { weight: 4, arbitrary: fc.record({ ...nearly, path: below(known.map((name) => `/${name}`)), bearer: none }) },
  { weight: 2, arbitrary: fc.record({ ...nearly, path: below(restPath), bearer: mostlyRight }) },
);

/** Whether every HTTP/1.1 server can parse the request, so that it must be answered. */
export function isWellFramed({ method, path, headers, framing, cookie }: Fuzzed): boolean {
  return (
    ["length", "chunked", "none"].includes(framing) &&
    METHODS.includes(method) &&
    method !== "CONNECT" &&
    /^(\/[\x21-\x7e]*|\*)$/.test(path) &&
    path.length < 20_000 &&
    headers.every(([, value]) => /^[\t\x20-\x7e\x80-\xff]*$/.test(value)) &&
    (cookie.kind !== "raw" || /^[\t\x20-\x7e\x80-\xff]*$/.test(cookie.text))
  );
}

/** The bytes of a request. `lines` are additional headers. */
export function bytesOf({ method, path, headers, body, framing }: Fuzzed, lines: [string, string][]): Buffer {
  const own: [string, string][] = framing === "no host" ? [] : [["host", "127.0.0.1"]];
  const typed = headers.some(([name]) => name === "content-type") || body.length === 0;
  if (!typed) own.push(["content-type", "application/json"]);
  const all = [...own, ...lines, ...headers, ...framed(framing, body.length)];
  const head = `${method} ${path} HTTP/1.1\r\n${all.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`;
  if (framing === "cut head") return Buffer.from(head.slice(0, -3), "latin1");
  return Buffer.concat([Buffer.from(head, "latin1"), sent(framing, body)]);
}

function framed(framing: Framing, length: number): [string, string][] {
  const lengths = (...all: (number | string)[]): [string, string][] =>
    all.map((one) => ["content-length", String(one)]);
  switch (framing) {
    case "none":
      return [];
    case "chunked":
    case "bad chunk":
    case "cut chunk":
      return [["transfer-encoding", "chunked"]];
    case "short":
      return lengths(length + 7);
    case "long":
      return lengths(Math.floor(length / 2));
    case "twice":
      return lengths(length, length + 1);
    case "both":
      return [...lengths(length), ["transfer-encoding", "chunked"]];
    case "bad length":
      return lengths("-1");
    default:
      return lengths(length);
  }
}

function sent(framing: Framing, body: Buffer): Buffer {
  const chunk = (part: Buffer): Buffer =>
    part.length === 0
      ? part
      : Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from("\r\n")]);
  const half = Math.floor(body.length / 2);
  switch (framing) {
    case "none":
      return Buffer.alloc(0);
    case "chunked":
      return Buffer.concat([chunk(body.subarray(0, half)), chunk(body.subarray(half)), Buffer.from("0\r\n\r\n")]);
    case "bad chunk":
      return Buffer.concat([chunk(body), Buffer.from("zz\r\n\r\n")]);
    case "cut chunk":
      return Buffer.concat([chunk(body), Buffer.from("ff\r\n{")]);
    default:
      return body;
  }
}

/** The client's action after its last byte: after a short request, a server would wait for the rest. */
export const afterOf = ({ framing }: Fuzzed): "wait" | "end" =>
  ["short", "cut chunk", "cut head"].includes(framing) ? "end" : "wait";
