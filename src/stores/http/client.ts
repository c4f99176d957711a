// Sends one request to an HTTP store's service, and classifies its refusals.
import { HoldfastError, messageOf, type ErrorCode } from "../../core/errors.ts";
import { exchange, ExchangeError } from "../../io/exchange.ts";
import type { Call, Fault } from "../front.ts";
import type { Address } from "./address.ts";
import { WrongAnswer } from "./answers.ts";

/** Maximum number of concurrent requests. Additional requests wait. */
const mostConnections = 64;
/** Maximum size of an answer in bytes: about half the longest string that V8 can hold. */
const largest = 256 * 1024 * 1024;
/** Extra milliseconds for each byte in an answer. */
const perByte = 1 / 1024;
/** The fraction of its time limit that a request must still have when it gets a connection. */
const leastShare = 0.1;
/** The codes that a service may return. `store_closed` is not among them, because this store is open. */
const passedOn = new Set<string>(["store_busy", "store_full", "store_failed", "store_corrupt", "store_newer"]);
const busyStatuses = new Set([408, 429, 502, 503, 504]);

/** A refusal or an invalid answer. The message is appended to the store's name. */
class Refusal extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

interface Reply {
  status: number;
  location: string | string[] | undefined;
  bytes: Uint8Array;
}

export interface Client {
  /** Sends an operation; without a body, as GET. `read` checks the answer, and throws WrongAnswer if it is invalid. */
  ask<T>(verb: string, body: unknown, read: (answer: unknown) => T, call: Call): Promise<T>;
  /** Whether a request of this call is running. */
  isAsking(call: Call): boolean;
  close(): Promise<void>;
}

export async function createClient({ origin, path, headers }: Address): Promise<Client> {
  // undici is loaded on first use, because loading takes a tenth of a second.
  const { Pool } = await import("undici");
  // `exchange` limits the time. Idle connections are closed after 4 s, before most servers close them. Otherwise a
  // request could be sent while the server closes the connection, and its outcome would be unknown.
  const pool = new Pool(origin, {
    connections: mostConnections,
    pipelining: 1,
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 4000,
    keepAliveMaxTimeout: 30_000,
  });
  const running = new Set<Call>();
  return {
    async ask(verb, asked, read, call) {
      const timeout = call.until - performance.now();
      const body = asked === undefined ? null : JSON.stringify(asked);
      const method = body === null ? "GET" : "POST";
      const limits = { timeout, least: timeout * leastShare, perByte, largest };
      const request = { origin, path: `${path}/${verb}`, method, headers, body, limits, dispatcher: pool } as const;
      running.add(call);
      const reply = await exchange(request, async (answer) => ({
        status: answer.status,
        location: answer.headers["location"],
        bytes: await answer.bytes(),
      })).finally(() => running.delete(call));
      if (reply.status !== 200) throw refusalOf(verb, reply);
      try {
        return read(parsed(reply.bytes));
      } catch (thrown) {
        if (!(thrown instanceof WrongAnswer)) throw thrown;
        throw new Refusal("store_failed", `sent an invalid answer to ${verb}: ${thrown.message}`);
      }
    },
    isAsking: (call) => running.has(call),
    close: () => pool.destroy(),
  };
}

export function faultOf(thrown: unknown): Fault {
  if (thrown instanceof Refusal) {
    const { code, message } = thrown;
    return { code, message, effect: "unknown", passing: code === "store_busy" };
  }
  if (!(thrown instanceof ExchangeError)) {
    return { code: "store_failed", message: `failed: ${messageOf(thrown)}`, effect: "unknown" };
  }
  const { kind, isSent, reason, message } = thrown;
  if (kind === "too_large") return { code: "store_failed", message, effect: "unknown" };
  const lost = isSent ? "closed the connection before it answered" : "cannot be reached";
  const text = kind === "timeout" ? "did not answer in time" : reason === undefined ? lost : `${lost}: ${reason}`;
  return { code: "store_busy", message: text, effect: isSent ? "unknown" : "nothing", passing: true };
}

function refusalOf(verb: string, { status, location, bytes }: Reply): Error {
  const said = errorIn(bytes);
  if (said !== undefined) {
    const { code, message } = said;
    if (verb === "list" && code === "session_not_found") return new HoldfastError(code, message);
    if (passedOn.has(code)) return new Refusal(code as ErrorCode, `answered ${code}: ${message}`);
  }
  const because = said === undefined ? "" : `: ${said.message}`;
  if (status === 401 || status === 403) {
    const hint = "set HOLDFAST_STORE_TOKEN, or put the token in the URL as in https://TOKEN@example.com";
    return new Refusal("store_failed", `refused the token, or requires one (${status}); ${hint}`);
  }
  if (status >= 300 && status < 400) {
    const message = `redirects the request (${status})${elsewhere(location)}; use the URL that it redirects to`;
    return new Refusal("store_failed", message);
  }
  if (status === 413) return new Refusal("store_failed", `refused the request because it is too large (413)${because}`);
  if (status === 507) return new Refusal("store_full", `has no space left (507)${because}`);
  if (busyStatuses.has(status)) return new Refusal("store_busy", `is busy or unavailable (${status})${because}`);
  const hint =
    status === 404 && said === undefined ? "; check that the URL and its path belong to a Holdfast store" : "";
  return new Refusal("store_failed", `answered ${verb} with ${status}${because}${hint}`);
}

// The decoder is fatal, because otherwise invalid bytes would silently become different text.
const decoder = new TextDecoder("utf-8", { fatal: true });

function parsed(bytes: Uint8Array): unknown {
  let text = "";
  try {
    text = decoder.decode(bytes);
  } catch {
    throw new Refusal("store_failed", "answered with invalid UTF-8");
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new WrongAnswer(`it is not JSON, and starts with ${JSON.stringify(plain(text, 60))}`);
  }
}

/** Returns the error in an answer, if it has the shape that the contract defines. */
function errorIn(bytes: Uint8Array): { code: string; message: string } | undefined {
  try {
    const { error } = Object(JSON.parse(decoder.decode(bytes))) as { error?: unknown };
    const { code, message } = Object(error) as { code?: unknown; message?: unknown };
    return typeof code === "string" && typeof message === "string" ? { code, message: plain(message, 300) } : undefined;
  } catch {
    return undefined;
  }
}

/** Puts a server's text on one line. */
function plain(text: string, length: number): string {
  const line = text.slice(0, length).replaceAll(/[\s\p{C}]+/gu, " ");
  return text.length > length ? `${line}…` : line;
}

function elsewhere(location: string | string[] | undefined): string {
  if (typeof location !== "string" || !URL.canParse(location)) return "";
  const { origin, pathname } = new URL(location);
  return `, to ${origin}${pathname}`;
}
