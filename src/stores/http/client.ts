// Asks the service behind an HTTP store, waits for one that is away, and gives every failure one of our codes.
import { setTimeout as delay } from "node:timers/promises";
import type { Pool } from "undici";
import { HoldfastError, type ErrorCode } from "../../core/errors.ts";
import type { Address } from "./address.ts";
import { WrongAnswer } from "./answers.ts";
import { exchange, Fault, reasonOf, type Reply } from "./exchange.ts";

export interface Question<T> {
  /** Without a body it is a GET. */
  verb: string;
  body?: unknown;
  /** Makes what is wanted of the answer, and throws a WrongAnswer where it is none. */
  read(answer: unknown): T;
  /** Whether asking twice does no more than asking once. What may have been done is not asked for again otherwise. */
  again: boolean;
}

/** How long a verb may take, in milliseconds; what is large gets more. */
const patience = 5000;
/** More than these wait for one another. */
const mostConnections = 64;
/** The codes that a service may answer with. `store_closed` is not one: this store is open, whatever that one's is. */
const passedOn = new Set<string>(["store_busy", "store_full", "store_failed", "store_corrupt", "store_newer"]);
const busyStatuses = new Set([408, 429, 502, 503, 504]);

export interface Client {
  ask<T>(question: Question<T>): Promise<T>;
  /** Nothing may be asked any more. */
  end(): Promise<void>;
}

export async function createClient({ origin, path, headers, shown }: Address): Promise<Client> {
  // Loaded here: it takes a tenth of a second, which who uses another store should not wait for.
  const { Pool } = await import("undici");
  // The time-outs are kept by the exchange. Connections are given up after 4 s of rest, before most servers do so: a
  // request that is sent just as the server closes its connection would be in doubt.
  const pool: Pool = new Pool(origin, {
    connections: mostConnections,
    pipelining: 1,
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 4000,
    keepAliveMaxTimeout: 30_000,
  });

  async function once<T>({ verb, read }: Question<T>, body: string | null, left: number): Promise<T> {
    const method = body === null ? "GET" : "POST";
    const reply = await exchange(pool, { origin, path: `${path}/${verb}`, method, headers, body }, left);
    if (reply.status !== 200) throw refusal(verb, reply);
    try {
      return read(parsed(reply.text));
    } catch (cause) {
      if (!(cause instanceof WrongAnswer)) throw cause;
      throw failure("store_failed", `gave no answer to ${verb} that can be used: ${cause.message}`, { cause });
    }
  }

  function refusal(verb: string, { status, location, text }: Reply): HoldfastError {
    const said = errorIn(text);
    if (said !== undefined) {
      const { code, message } = said;
      if (verb === "list" && code === "session_not_found") return new HoldfastError(code, message);
      if (passedOn.has(code)) return failure(code as ErrorCode, `answered ${code}: ${message}`);
    }
    const because = said === undefined ? "" : `: ${said.message}`;
    if (status === 401 || status === 403) {
      const hint = "set HOLDFAST_STORE_TOKEN, or put the token in the URL as in https://TOKEN@example.com";
      return failure("store_failed", `refused the token, or wants one (${status}); ${hint}`);
    }
    if (status >= 300 && status < 400) {
      return failure("store_failed", `sends elsewhere (${status})${elsewhere(location)}; give the URL that it is at`);
    }
    if (status === 413) return failure("store_failed", `does not take a request this large (413)${because}`);
    if (status === 507) return failure("store_full", `has no room left (507)${because}`);
    if (busyStatuses.has(status)) return failure("store_busy", `is busy or away (${status})${because}`);
    const hint = status === 404 && said === undefined ? "; is it a store of Holdfast, and is the path right?" : "";
    return failure("store_failed", `answered ${verb} with ${status}${because}${hint}`);
  }

  const failure = (code: ErrorCode, what: string, options?: { cause: unknown }): HoldfastError =>
    new HoldfastError(code, `the HTTP store ${shown} ${what}`, options);

  function coded(thrown: unknown): unknown {
    if (!(thrown instanceof Fault)) return thrown;
    const reason = reasonOf(thrown);
    return failure("store_busy", reason === "" ? thrown.message : `${thrown.message}: ${reason}`, { cause: thrown });
  }

  return {
    async ask(question) {
      // Before the first wait: the caller may do with what it gave what it likes.
      const body = question.body === undefined ? null : JSON.stringify(question.body);
      const deadline = performance.now() + patience;
      for (let pause = 25; ; pause = Math.min(2 * pause, 500)) {
        try {
          return await once(question, body, deadline - performance.now());
        } catch (thrown) {
          const wait = pause * (0.5 + Math.random() / 2);
          if (!mayTryAgain(thrown, question.again) || performance.now() + wait + 5 > deadline) throw coded(thrown);
          await delay(wait);
        }
      }
    },
    end: () => pool.destroy(),
  };
}

/** Whether another try could help, and could do no harm. */
function mayTryAgain(thrown: unknown, again: boolean): boolean {
  if (thrown instanceof Fault) return again || !thrown.sent;
  return again && thrown instanceof HoldfastError && thrown.code === "store_busy";
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new WrongAnswer(`it is no JSON, and starts with ${JSON.stringify(plain(text, 60))}`);
  }
}

/** The error of our shape that a text is, if it is one. */
function errorIn(text: string): { code: string; message: string } | undefined {
  try {
    const { error } = Object(JSON.parse(text)) as { error?: unknown };
    const { code, message } = Object(error) as { code?: unknown; message?: unknown };
    return typeof code === "string" && typeof message === "string" ? { code, message: plain(message, 300) } : undefined;
  } catch {
    return undefined;
  }
}

/** What a server said, as it can stand in a line of ours. */
function plain(text: string, length: number): string {
  const line = text.slice(0, length).replaceAll(/[\s\p{C}]+/gu, " ");
  return text.length > length ? `${line}…` : line;
}

function elsewhere(location: string | undefined): string {
  if (location === undefined || !URL.canParse(location)) return "";
  const { origin, pathname } = new URL(location);
  return `, to ${origin}${pathname}`;
}
