// A third-party counter over the gym protocol: written from the protocol's facts without our code, and strict.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

type Fields = Record<string, unknown>;

export interface ForeignRequest {
  path: string;
  cookie: string | undefined;
  key: string | undefined;
  body: Fields;
}

/** A test's replacement for the server's reply: an answer, or a closed connection. */
export type Instead = { status: number; body: unknown } | "drop" | undefined;

export interface Foreign {
  url: string;
  requests: ForeignRequest[];
  /** The number of seeded sessions. */
  seeded(): number;
  /** The counters, in the order of the seeds. */
  counts(): number[];
}

const allowed = new Set(
  `background include input instructions max_output_tokens max_tool_calls metadata model parallel_tool_calls
  previous_response_id prompt reasoning service_tier store temperature text tool_choice tools top_logprobs top_p
  truncation user stream`.split(/\s+/),
);
const needed = ["id", "created_at", "model", "object", "output", "parallel_tool_calls", "tool_choice", "tools"];

interface Session {
  count: number;
  /** The last cookie value it sent: no other is accepted. */
  value: string;
  isBusy: boolean;
}

class Refusal extends Error {
  readonly status: number;
  readonly body: unknown;
  readonly hasCookie: boolean;
  constructor(status: number, body: unknown, hasCookie: boolean) {
    super(String(status));
    this.status = status;
    this.body = body;
    this.hasCookie = hasCookie;
  }
}

const cookieName = "CounterServer___counter";

/**
 * Every reply sets a new cookie, except that of a tool that threw, and the previous cookie is then refused.
 * Only the seed sets a second cookie, which is required from then on.
 */
export async function foreignGym(
  instead: (request: ForeignRequest, seen: number) => Instead = () => undefined,
): Promise<Foreign> {
  const sessions: Session[] = [];
  const requests: ForeignRequest[] = [];
  let values = 0;

  function sessionOf(cookie: string | undefined): Session {
    const pairs = new Map((cookie ?? "").split("; ").map((pair) => pair.split("=", 2) as [string, string]));
    const found = sessions.find(({ value }) => value === pairs.get(cookieName));
    if (!found || pairs.get("route") !== "a1") throw new Refusal(409, { detail: `stale cookie ${cookie}` }, false);
    if (found.isBusy) throw new Refusal(409, { detail: "two calls at once" }, false);
    return found;
  }

  function checkParams({ responses_create_params: params }: Fields): void {
    const unknown = Object.keys((params ?? { missing: 1 }) as Fields).filter((name) => !allowed.has(name));
    if (unknown.length > 0) throw new Refusal(422, { detail: [{ type: "extra_forbidden", loc: unknown }] }, true);
  }

  function checkResponse({ response }: Fields): void {
    const given = (response ?? {}) as Fields;
    const missing = needed.filter((name) => given[name] === undefined || given[name] === null);
    const usage = given["usage"] as { input_tokens_details?: Fields; output_tokens_details?: Fields } | undefined;
    if (usage && typeof usage.input_tokens_details?.["cached_tokens"] !== "number") missing.push("cached_tokens");
    if (usage && typeof usage.output_tokens_details?.["reasoning_tokens"] !== "number")
      missing.push("reasoning_tokens");
    if (missing.length > 0) throw new Refusal(422, { detail: [{ type: "missing", loc: missing }] }, true);
  }

  function act(path: string, session: Session, body: Fields): unknown {
    switch (path) {
      case "/increment_counter":
        if (typeof body["count"] !== "number") throw new Refusal(422, { detail: [{ loc: ["body", "count"] }] }, true);
        session.count += body["count"];
        return { success: true };
      case "/get_counter_value":
        return { count: session.count };
      case "/crash":
        throw new Refusal(500, "KeyError('boom')", false);
      case "/verify":
        checkParams(body);
        checkResponse(body);
        return { ...body, reward: Number(session.count === body["expected_count"]), final_count: session.count };
      default:
        throw new Refusal(404, { detail: "Not Found" }, true);
    }
  }

  function seed(body: Fields): { session: Session; reply: unknown } {
    checkParams(body);
    const session = { count: Number(body["initial_count"] ?? 0), value: "", isBusy: false };
    sessions.push(session);
    return { session, reply: {} };
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = "";
    for await (const chunk of request) text += String(chunk);
    const { cookie, "idempotency-key": key } = request.headers;
    const path = request.url ?? "";
    const body = (text === "" ? {} : JSON.parse(text)) as Fields;
    const seen: ForeignRequest = { path, cookie, key: key as string | undefined, body };
    requests.push(seen);
    const other = instead(seen, requests.length);
    if (other === "drop") return void request.socket.destroy();
    if (other) return void response.writeHead(other.status).end(JSON.stringify(other.body));
    let session: Session | undefined;
    const setCookie = (): void => {
      if (!session) return;
      session.value = `v${++values}`;
      const cookies = [`${cookieName}=${session.value}; path=/; Max-Age=1209600; httponly; samesite=lax`];
      response.setHeader("set-cookie", path === "/seed_session" ? [...cookies, "route=a1; path=/"] : cookies);
    };
    try {
      if (path === "/seed_session") {
        const made = seed(body);
        session = made.session;
        setCookie();
        return void response.end(JSON.stringify(made.reply));
      }
      session = sessionOf(cookie);
      session.isBusy = true;
      await new Promise((resolve) => setTimeout(resolve, 2));
      const reply = act(path, session, body);
      setCookie();
      response.end(JSON.stringify(reply));
    } catch (thrown) {
      if (!(thrown instanceof Refusal)) throw thrown;
      if (thrown.hasCookie) setCookie();
      response.writeHead(thrown.status).end(JSON.stringify(thrown.body));
    } finally {
      if (session) session.isBusy = false;
    }
  }

  const server = createServer(
    (request, response) => void handle(request, response).catch(() => request.socket.destroy()),
  );
  return {
    url: await listening(server),
    requests,
    seeded: () => sessions.length,
    counts: () => sessions.map(({ count }) => count),
  };
}

/** Starts a server on a free port, and stops it with the test. */
export async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
