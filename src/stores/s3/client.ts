// Requests to S3: signs and sends them, retries where that is safe, and adds an error code to failures.
import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { AwsV4Signer } from "aws4fetch";
import type { Pool } from "undici";
import { HoldfastError, messageOf } from "../../core/errors.ts";
import { exchange, ExchangeError } from "../../io/exchange.ts";
import type { Call } from "../front.ts";
import type { Location } from "./location.ts";

/** Milliseconds that background work may take, and extra milliseconds for each byte that it sends. */
const timeLimit = 5000;
const perByte = 1 / 1000;
/** Extra milliseconds for an operation while the server is answering other requests from this process. */
const overtime = 25_000;
/** Maximum number of concurrent requests. Additional requests would only wait for each other. */
const mostConnections = 64;
/** Maximum size of an answer in bytes: about the longest string that V8 can hold. */
const largest = 512 * 1024 * 1024;

/** Returns the time limit of background work. */
export function backgroundCall(bytes = 0): Call {
  return { until: performance.now() + timeLimit + bytes * perByte };
}

export interface Found {
  etag: string;
  text: string;
}

export interface ListedObject {
  /** The object's key, without the store's prefix. */
  key: string;
  etag: string;
  /** The time of the last change by the server's clock, in milliseconds. */
  modified: number;
}

export interface ListedPage {
  objects: ListedObject[];
  more: boolean;
  /** The time of the server's clock. */
  date: number;
}

export type Condition = { absent: true } | { etag: string };

/**
 * The outcome of a conditional put. `refused`: the condition did not hold. `unclear`: it did not hold, but an earlier
 * unanswered attempt may be the reason. The caller must check.
 */
export type Put = { etag: string } | "refused" | "unclear";

interface Request {
  method: "GET" | "PUT" | "DELETE";
  /** The key of an object; undefined for the bucket. */
  key?: string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: string;
  call: Call;
}

interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
}

export type Client = ReturnType<typeof createClient>;

export function createClient(location: Location) {
  const { name, origin, bucketPath, prefix } = location;
  let loading: Promise<{ pool: Pool; Signer: typeof AwsV4Signer }> | undefined;
  let pool: Pool | undefined;
  const keys = new Map<string, ArrayBuffer>();
  const waiting: (() => void)[] = [];
  let running = 0;
  let answered = -Infinity;

  /** Returns whether a late operation may take longer, because the server is answering other requests. */
  function hasOvertime({ until }: Call): boolean {
    const now = performance.now();
    return now - answered <= 1000 && now <= until + overtime;
  }

  /** Returns whether the deadline has passed. */
  function isLate(call: Call, pause = 0): boolean {
    return performance.now() + pause > call.until && !hasOvertime(call);
  }

  /** Waits for one of the connections. */
  async function enter(): Promise<void> {
    if (running < mostConnections) running++;
    else await new Promise<void>((resolve) => waiting.push(resolve));
  }

  function leave(): void {
    const next = waiting.shift();
    if (next) next();
    else running--;
  }

  async function load(): Promise<{ pool: Pool; Signer: typeof AwsV4Signer }> {
    const [{ Pool }, { AwsV4Signer }] = await Promise.all([
      import("undici"),
      import("aws4fetch").catch((cause: unknown) => {
        throw new HoldfastError("missing_dependency", "s3Store needs `npm install aws4fetch`", { cause });
      }),
    ]);
    pool = new Pool(origin, { connections: mostConnections, headersTimeout: 0, bodyTimeout: 0 });
    return { pool, Signer: AwsV4Signer };
  }

  /** Sends the request once. Throws if there is no answer. */
  async function once({ method, key, query = {}, headers = {}, body, call }: Request): Promise<Answer> {
    const { pool, Signer } = await (loading ??= load());
    const path = key === undefined ? bucketPath || "/" : `${bucketPath}/${encodePath(prefix + key)}`;
    const search = Object.entries(query).map((pair) => pair.map(encode).join("="));
    const url = `${origin}${path}${search.length > 0 ? `?${search.join("&")}` : ""}`;
    const signed = await sign(Signer, location, { method, url, headers, body: body ?? "" }, keys);
    // An attempt that hangs must leave time for a second attempt, which may reach a healthy server.
    const timeout = Math.max((call.until - performance.now()) * 0.6, 1000);
    const sent = { method, origin, path: url.slice(origin.length), headers: signed, body: body ?? null };
    return exchange({ ...sent, dispatcher: pool, limits: { timeout, largest } }, async (answer) => ({
      status: answer.status,
      headers: answer.headers,
      text: await answer.text(),
    }));
  }

  /** Retries until the answer is final. `onDoubt` is called for each attempt that may have been applied. */
  async function send(request: Request, onDoubt?: () => void): Promise<Answer> {
    let reason = "the service does not answer";
    for (let tries = 0; ; tries++) {
      await enter();
      try {
        // Nothing was sent, because earlier requests used all connections without an answer.
        if (isLate(request.call)) throw busy(reason);
        const answer = await once(request);
        if (!isPassing(answer)) {
          answered = performance.now();
          return answer;
        }
        reason = `the service answered ${answer.status} ${codeOf(answer)}`.trim();
        if (answer.status !== 409) onDoubt?.();
      } catch (thrown) {
        if (thrown instanceof HoldfastError) throw thrown;
        const isLate = thrown instanceof ExchangeError && thrown.kind === "timeout";
        reason = isLate ? "the service does not answer" : messageOf(thrown);
        onDoubt?.();
      } finally {
        leave();
      }
      const pause = Math.random() * Math.min(10 * 2 ** tries, 500);
      if (isLate(request.call, pause)) throw busy(reason);
      await delay(pause);
    }
  }

  function busy(reason: string): HoldfastError {
    return new HoldfastError("store_busy", `the S3 store ${name} did not complete the request in time: ${reason}`);
  }

  function failed(answer: Answer): HoldfastError {
    const code = codeOf(answer);
    const said = `${answer.status} ${code}`.trim();
    const text = /<Message>([^<]{0,300})/.exec(answer.text)?.[1];
    const told = text === undefined ? "" : `: ${unescape(text)}`;
    const fail = (message: string): HoldfastError =>
      new HoldfastError("store_failed", `the S3 store ${name} ${message}`);
    if (code === "NoSuchBucket") return fail(`does not have this bucket (${said}); create it first`);
    if (code === "RequestTimeTooSkewed")
      return fail(`refused the request because the clock of this machine is wrong (${said}); correct the clock`);
    if (code === "AuthorizationHeaderMalformed" || answer.status === 301 || answer.status === 307) {
      return fail(`is in another region than ${location.region} (${said})${told}; set region=… in the URL`);
    }
    if (answer.status === 401 || answer.status === 403) {
      return fail(`refused the request because the credentials are wrong or lack permission (${said})${told}`);
    }
    if (answer.status === 507 || /quota|storagefull/i.test(code)) {
      return new HoldfastError("store_full", `the S3 store ${name} has no space left (${said})${told}`);
    }
    return fail(`failed (${said})${told}`);
  }

  return {
    name,
    isLate,
    hasOvertime,

    /** Reads an object or its first bytes. Returns "same" if it has the known etag. */
    async get(
      key: string,
      call: Call,
      { known, bytes }: { known?: string | undefined; bytes?: number } = {},
    ): Promise<Found | "same" | undefined> {
      const headers: Record<string, string> = {};
      if (known !== undefined) headers["if-none-match"] = known;
      if (bytes !== undefined) headers["range"] = `bytes=0-${bytes - 1}`;
      const answer = await send({ method: "GET", key, headers, call });
      if (answer.status === 304) return "same";
      if (answer.status === 404 && codeOf(answer) !== "NoSuchBucket") return undefined;
      if (answer.status !== 200 && answer.status !== 206) throw failed(answer);
      return { etag: String(answer.headers["etag"]), text: answer.text };
    },

    /** Puts an object that is safe to put more than once. */
    async put(key: string, body: string, call: Call): Promise<void> {
      const answer = await send({ method: "PUT", key, body, call });
      if (answer.status !== 200) throw failed(answer);
    },

    async putIf(key: string, body: string, condition: Condition, call: Call): Promise<Put> {
      let doubt = false;
      const headers: Record<string, string> =
        "etag" in condition ? { "if-match": condition.etag } : { "if-none-match": "*" };
      const answer = await send({ method: "PUT", key, body, headers, call }, () => (doubt = true));
      if (answer.status === 200) return { etag: String(answer.headers["etag"]) };
      const gone = answer.status === 404 && codeOf(answer) !== "NoSuchBucket";
      if (answer.status === 412 || gone) return doubt ? "unclear" : "refused";
      throw failed(answer);
    },

    /** Deletes an object. With an etag, deletes only that version; returns false if the object has another etag. */
    async remove(key: string, call: Call, etag?: string): Promise<boolean> {
      const headers: Record<string, string> = etag === undefined ? {} : { "if-match": etag };
      const answer = await send({ method: "DELETE", key, headers, call });
      if (answer.status === 412) return false;
      if (answer.status > 204 && !(answer.status === 404 && codeOf(answer) !== "NoSuchBucket")) throw failed(answer);
      return true;
    },

    /** Lists objects under a prefix in the order of their keys, after a key; at most `most`, and at most 1,000. */
    async list(under: string, after: string | undefined, call: Call, most = 1000): Promise<ListedPage> {
      const query = { "list-type": "2", "max-keys": String(Math.min(most, 1000)), prefix: prefix + under };
      const from: Record<string, string> = after === undefined ? {} : { "start-after": prefix + after };
      const answer = await send({ method: "GET", query: { ...query, ...from }, call });
      if (answer.status !== 200) throw failed(answer);
      const objects = Array.from(answer.text.matchAll(/<Contents>(.*?)<\/Contents>/gs), ([, text = ""]) => ({
        key: tag(text, "Key").slice(prefix.length),
        etag: tag(text, "ETag"),
        modified: Date.parse(tag(text, "LastModified")),
      }));
      const more = tag(answer.text, "IsTruncated") === "true" && objects.length > 0;
      return { objects, more, date: Date.parse(String(answer.headers["date"])) };
    },

    close: async (): Promise<void> => {
      await loading?.catch(() => undefined);
      await pool?.destroy();
    },
  };
}

export async function sign(
  Signer: typeof AwsV4Signer,
  {
    region,
    accessKeyId,
    secretAccessKey,
    sessionToken,
  }: Pick<Location, "region" | "accessKeyId" | "secretAccessKey" | "sessionToken">,
  { method, url, headers, body }: { method: string; url: string; headers: Record<string, string>; body: string },
  cache: Map<string, ArrayBuffer>,
  datetime?: string,
): Promise<Record<string, string>> {
  // Signing keys of past days are useless.
  if (cache.size > 2) cache.clear();
  const signer = new Signer({
    method,
    url,
    region,
    accessKeyId,
    secretAccessKey,
    cache,
    service: "s3",
    allHeaders: true,
    ...(sessionToken !== undefined && { sessionToken }),
    ...(datetime !== undefined && { datetime }),
    headers: { ...headers, "x-amz-content-sha256": createHash("sha256").update(body).digest("hex") },
  });
  return Object.fromEntries((await signer.sign()).headers);
}

/** Returns whether a retry may get a different answer, because the server was overloaded or two writers conflicted. */
function isPassing(answer: Answer): boolean {
  if (answer.status === 409) return /ConditionalRequestConflict|OperationAborted/.test(answer.text);
  return answer.status === 429 || (answer.status >= 500 && answer.status !== 501 && answer.status !== 507);
}

function codeOf({ text }: Answer): string {
  return tag(text, "Code");
}

function tag(text: string, name: string): string {
  const start = text.indexOf(`<${name}>`);
  if (start < 0) return "";
  return unescape(text.slice(start + name.length + 2, text.indexOf(`</${name}>`, start)));
}

const entities: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

function unescape(text: string): string {
  return text.replaceAll(/&(?:#x([0-9a-f]+)|#(\d+)|(amp|lt|gt|quot|apos));/gi, (_, hex, decimal, named) =>
    named
      ? entities[String(named).toLowerCase()]!
      : String.fromCodePoint(hex ? parseInt(String(hex), 16) : Number(decimal)),
  );
}

function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

function encodePath(key: string): string {
  return key.split("/").map(encode).join("/");
}
