// A small S3 server for tests and benches: objects in memory or in a folder, conditional puts, signatures checked, faults on demand.
import { createHash, createHmac, randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

/**
 * @typedef {object} Options
 * @property {string} [bucket] The one bucket there is.
 * @property {string} [accessKeyId]
 * @property {string} [secretAccessKey]
 * @property {string} [region]
 * @property {string} [folder] Where the objects are kept, so that another server can continue with them. Without it: in memory.
 * @property {number} [port] 0, the default, is any free one.
 * @property {boolean} [ignoresConditions] Puts whatever the condition, as many S3 servers do.
 * @property {boolean} [ignoresDeleteConditions] The same for deletes, as all did until 2025.
 *
 * @typedef {{ body: Buffer, etag: string, modified: number }} StoredObject
 * @typedef {{ method: string, key: string, query: URLSearchParams, headers: import("node:http").IncomingHttpHeaders, time: number }} Seen
 *
 * A fault of a request: a status with its S3 error code, a connection cut before or after the request was applied;
 * a delay in milliseconds, or no answer at all.
 * @typedef {{ status?: number, code?: string, cut?: "before" | "after", delay?: number, hang?: boolean }} Fault
 *
 * @typedef {object} S3Server
 * @property {string} endpoint
 * @property {number} port
 * @property {Map<string, StoredObject>} objects
 * @property {Seen[]} requests Every request that was well signed, in order.
 * @property {(decide: ((request: Seen) => Fault | undefined) | undefined) => void} onRequest Asked about each request.
 * @property {(count: number, fault: Fault) => void} failNext
 * @property {() => Promise<void>} stop
 */

const sha256 = (/** @type {string | Buffer} */ data) => createHash("sha256").update(data).digest("hex");
const hmac = (/** @type {string | Buffer} */ key, /** @type {string} */ data) =>
  createHmac("sha256", key).update(data).digest();

/** Percent-encodes all but what RFC 3986 calls unreserved, as the documentation of SigV4 has it. */
const encode = (/** @type {string} */ text) =>
  Array.from(Buffer.from(text), (byte) => {
    const char = String.fromCharCode(byte);
    return /[A-Za-z0-9\-._~]/.test(char) ? char : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }).join("");

/**
 * The signature that a request must have, from "Signature Calculations for the Authorization Header" of the S3 API reference.
 *
 * @param {{ method: string, path: string, headers: Record<string, string>, signedHeaders: string[], secretAccessKey: string, scope: string }} request
 *   `path` as it was sent, with the query; `headers` with names in lower case.
 */
export function signatureOf({ method, path, headers, signedHeaders, secretAccessKey, scope }) {
  const [rawPath = "", rawQuery = ""] = path.split(/\?(.*)/s);
  const uri = rawPath
    .split("/")
    .map((part) => encode(decodeURIComponent(part)))
    .join("/");
  const query = rawQuery
    .split("&")
    .filter((pair) => pair !== "")
    .map((pair) => pair.split(/=(.*)/s))
    .map(([name = "", value = ""]) => [encode(decodeURIComponent(name)), encode(decodeURIComponent(value))])
    .sort(([a = "", c = ""], [b = "", d = ""]) => (a < b ? -1 : a > b ? 1 : c < d ? -1 : 1))
    .map((pair) => pair.join("="))
    .join("&");
  const lines = signedHeaders
    .map((name) => `${name}:${(headers[name] ?? "").trim().replaceAll(/ +/g, " ")}\n`)
    .join("");
  const payload = headers["x-amz-content-sha256"] ?? "";
  const canonical = [method, uri, query, lines, signedHeaders.join(";"), payload].join("\n");
  const [day = "", region = "", service = "", end = ""] = scope.split("/");
  const text = ["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, sha256(canonical)].join("\n");
  const key = hmac(hmac(hmac(hmac(`AWS4${secretAccessKey}`, day), region), service), end);
  return hmac(key, text).toString("hex");
}

/** An answer that is an error. */
class Refusal extends Error {
  /** @param {number} status @param {string} code @param {string} [message] */
  constructor(status, code, message = code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const quarterOfAnHour = 15 * 60_000;
const escape = (/** @type {string} */ text) => text.replaceAll(/[&<>"'\r\n\t]/g, (char) => `&#${char.charCodeAt(0)};`);

/**
 * Starts a server on a port of its own.
 *
 * @param {Options} [options]
 * @returns {Promise<S3Server>}
 */
export async function startS3(options = {}) {
  const { bucket = "test", accessKeyId = "AKIDTEST", secretAccessKey = "secret", region = "us-east-1" } = options;
  const { folder, port = 0, ignoresConditions = false, ignoresDeleteConditions = false } = options;
  /** @type {Map<string, StoredObject>} */
  const objects = new Map();
  /** @type {Seen[]} */
  const requests = [];
  /** The keys in order. @type {string[]} */
  let sorted = [];
  /** @type {Fault[]} */
  const faults = [];
  /** @type {((request: Seen) => Fault | undefined) | undefined} */
  let decide;

  const fileOf = (/** @type {string} */ key) => join(folder ?? "", Buffer.from(key).toString("base64url"));
  if (folder !== undefined) {
    mkdirSync(folder, { recursive: true });
    for (const name of readdirSync(folder).filter((name) => !name.endsWith(".part"))) {
      const body = readFileSync(join(folder, name));
      objects.set(Buffer.from(name, "base64url").toString(), { body, etag: etagOf(body), modified: Date.now() });
    }
    sorted = [...objects.keys()].sort();
  }

  function keep(/** @type {string} */ key, /** @type {Buffer} */ body) {
    const object = { body, etag: etagOf(body), modified: Date.now() };
    if (folder !== undefined) {
      writeFileSync(`${fileOf(key)}.part`, body);
      renameSync(`${fileOf(key)}.part`, fileOf(key));
    }
    if (!objects.has(key)) sorted.splice(placeOf(sorted, key), 0, key);
    objects.set(key, object);
    return object;
  }

  function remove(/** @type {string} */ key) {
    if (!objects.delete(key)) return;
    sorted.splice(placeOf(sorted, key), 1);
    if (folder !== undefined) rmSync(fileOf(key), { force: true });
  }

  /** Refuses a request that is not signed as it should be. */
  function authenticate(
    /** @type {import("node:http").IncomingMessage} */ request,
    /** @type {Record<string, string>} */ headers,
    /** @type {Buffer} */ body,
  ) {
    const match =
      /^AWS4-HMAC-SHA256 Credential=([^/]+)\/([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
        headers["authorization"] ?? "",
      );
    if (!match) throw new Refusal(403, "AccessDenied", "the request is not signed");
    const [, id, scope = "", names = "", signature] = match;
    if (id !== accessKeyId) throw new Refusal(403, "InvalidAccessKeyId");
    const date = headers["x-amz-date"] ?? "";
    const time = Date.parse(date.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"));
    if (!(Math.abs(time - Date.now()) < quarterOfAnHour)) throw new Refusal(403, "RequestTimeTooSkewed");
    if (scope !== `${date.slice(0, 8)}/${region}/s3/aws4_request`) {
      throw new Refusal(400, "AuthorizationHeaderMalformed", `the region is wrong; expecting '${region}'`);
    }
    const signedHeaders = names.split(";");
    const needed = Object.keys(headers).filter((name) => name === "host" || name.startsWith("x-amz-"));
    if (!needed.every((name) => signedHeaders.includes(name))) {
      throw new Refusal(403, "AccessDenied", "there were headers present in the request which were not signed");
    }
    const payload = headers["x-amz-content-sha256"];
    if (payload === undefined) throw new Refusal(400, "InvalidRequest", "x-amz-content-sha256 is missing");
    if (payload !== "UNSIGNED-PAYLOAD" && payload !== sha256(body)) throw new Refusal(400, "XAmzContentSHA256Mismatch");
    const sent = {
      method: request.method ?? "",
      path: request.url ?? "",
      headers,
      signedHeaders,
      secretAccessKey,
      scope,
    };
    if (signatureOf(sent) !== signature) throw new Refusal(403, "SignatureDoesNotMatch");
  }

  function assertCondition(/** @type {Seen} */ { key, headers }, /** @type {boolean} */ ignored) {
    if (ignored) return;
    const there = objects.get(key);
    if (headers["if-none-match"] === "*" && there) throw new Refusal(412, "PreconditionFailed");
    if (headers["if-match"] === undefined) return;
    if (!there) throw new Refusal(404, "NoSuchKey");
    if (headers["if-match"] !== there.etag) throw new Refusal(412, "PreconditionFailed");
  }

  function list(/** @type {URLSearchParams} */ query) {
    const prefix = query.get("prefix") ?? "";
    const after = query.get("continuation-token") ?? query.get("start-after") ?? "";
    const most = Math.min(Number(query.get("max-keys") ?? 1000), 1000);
    const page = [];
    let truncated = false;
    for (let index = placeOf(sorted, after < prefix ? prefix : after); index < sorted.length; index++) {
      const key = /** @type {string} */ (sorted[index]);
      if (key === after) continue;
      if (!key.startsWith(prefix)) break;
      truncated = page.length === most;
      if (truncated) break;
      page.push(key);
    }
    const contents = page.map((key) => {
      const { etag, body, modified } = /** @type {StoredObject} */ (objects.get(key));
      const time = new Date(Math.floor(modified / 1000) * 1000).toISOString();
      return `<Contents><Key>${escape(key)}</Key><LastModified>${time}</LastModified><ETag>${escape(etag)}</ETag><Size>${body.length}</Size></Contents>`;
    });
    const next = truncated ? `<NextContinuationToken>${escape(page.at(-1) ?? "")}</NextContinuationToken>` : "";
    return `<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>${bucket}</Name><IsTruncated>${truncated}</IsTruncated>${next}${contents.join("")}</ListBucketResult>`;
  }

  /**
   * @param {Seen} request
   * @param {Buffer} body
   * @returns {{ status: number, headers?: Record<string, string>, body?: string | Buffer }}
   */
  function answer(request, body) {
    const { method, key, query, headers } = request;
    if (key === "" && method === "GET" && query.get("list-type") === "2") {
      return { status: 200, headers: { "content-type": "application/xml" }, body: list(query) };
    }
    if (key === "") throw new Refusal(405, "MethodNotAllowed");
    if (Buffer.byteLength(key) > 1024) throw new Refusal(400, "KeyTooLongError");
    if (method === "PUT") {
      assertCondition(request, ignoresConditions);
      return { status: 200, headers: { etag: keep(key, body).etag } };
    }
    if (method === "DELETE") {
      if (objects.has(key)) assertCondition(request, ignoresDeleteConditions);
      remove(key);
      return { status: 204 };
    }
    if (method !== "GET" && method !== "HEAD") throw new Refusal(405, "MethodNotAllowed");
    const object = objects.get(key);
    if (!object) throw new Refusal(404, "NoSuchKey");
    const about = { etag: object.etag, "last-modified": new Date(object.modified).toUTCString() };
    if (headers["if-none-match"] === object.etag) return { status: 304, headers: about };
    const range = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? "");
    if (!range) return { status: 200, headers: about, body: object.body };
    const [from, to] = [Number(range[1]), range[2] ? Number(range[2]) : Infinity];
    if (from >= object.body.length) throw new Refusal(416, "InvalidRange");
    const end = Math.min(to, object.body.length - 1);
    const extent = { "content-range": `bytes ${from}-${end}/${object.body.length}` };
    return { status: 206, headers: { ...about, ...extent }, body: object.body.subarray(from, end + 1) };
  }

  const server = createServer((request, response) => {
    /** @type {Buffer[]} */
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => void handle(request, response, Buffer.concat(chunks)));
    request.on("error", () => {});
  });

  async function handle(
    /** @type {import("node:http").IncomingMessage} */ request,
    /** @type {import("node:http").ServerResponse} */ response,
    /** @type {Buffer} */ body,
  ) {
    const headers = /** @type {Record<string, string>} */ (request.headers);
    const send = (
      /** @type {{ status: number, headers?: Record<string, string>, body?: string | Buffer }} */ {
        status,
        headers,
        body,
      },
    ) => {
      // By the clock that dates the objects, which a test may have set.
      const date = new Date().toUTCString();
      response.writeHead(status, { ...headers, date, "content-length": Buffer.byteLength(body ?? "") });
      response.end(request.method === "HEAD" ? undefined : body);
    };
    try {
      authenticate(request, headers, body);
      const url = new URL(request.url ?? "", "http://any");
      let path = url.pathname;
      // Path style, unless the host begins with the bucket.
      if (!headers["host"]?.startsWith(`${bucket}.`)) {
        if (path !== `/${bucket}` && !path.startsWith(`/${bucket}/`)) throw new Refusal(404, "NoSuchBucket");
        path = path.slice(bucket.length + 1);
      }
      const key = decodeURIComponent(path.slice(1));
      const seen = {
        method: request.method ?? "",
        key,
        query: url.searchParams,
        headers: request.headers,
        time: Date.now(),
      };
      requests.push(seen);
      const fault = faults.shift() ?? decide?.(seen) ?? {};
      if (fault.delay !== undefined) await new Promise((resolve) => setTimeout(resolve, fault.delay));
      if (fault.cut === "before") return void request.socket.destroy();
      if (fault.status !== undefined) throw new Refusal(fault.status, fault.code ?? "InternalError");
      const result = answer(seen, body);
      if (fault.cut === "after") return void request.socket.destroy();
      if (!fault.hang) send(result);
    } catch (thrown) {
      const { status, code, message } =
        thrown instanceof Refusal ? thrown : new Refusal(500, "InternalError", String(thrown));
      const xml = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${escape(message)}</Message><RequestId>${randomBytes(8).toString("hex")}</RequestId></Error>`;
      send({ status, headers: { "content-type": "application/xml" }, body: xml });
    }
  }

  await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => resolve(undefined));
  });
  const actual = /** @type {import("node:net").AddressInfo} */ (server.address()).port;
  return {
    endpoint: `http://127.0.0.1:${actual}`,
    port: actual,
    objects,
    requests,
    onRequest: (next) => void (decide = next),
    failNext: (count, fault) => void faults.push(...Array.from({ length: count }, () => fault)),
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const etagOf = (/** @type {Buffer} */ body) => `"${createHash("md5").update(body).digest("hex")}"`;

/** The place of the first name that is not before one. */
function placeOf(/** @type {string[]} */ names, /** @type {string} */ name) {
  let [low, high] = [0, names.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (/** @type {string} */ (names[middle]) < name) low = middle + 1;
    else high = middle;
  }
  return low;
}
