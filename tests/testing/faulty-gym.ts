// A counter over the gym protocol, written from the protocol's facts without our code. It is right, except for one fault.
import { createHash, createHmac, randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import { listening } from "../protocols/foreign-gym.ts";

export type Fault =
  | "none"
  | "partial reward"
  | "answers vary"
  | "two processes that alternate"
  | "one state for all sessions"
  | "crash without a session"
  | "zero state without a session"
  | "second seed is ignored"
  | "verify writes"
  | "refusals set no cookie"
  | "crash sets no cookie"
  | "signature is not checked"
  | "key of the cookie is its name"
  | "session ids are numbers"
  | "seeds with a cookie replace the state"
  | "verify needs no row"
  | "call ids are ignored"
  | "await between read and write"
  | "closing does nothing"
  | "closing is not a route"
  | "bad arguments crash";

interface Session {
  count: number;
  answered: Map<string, unknown>;
}

type Body = { [field: string]: unknown };

class Refusal extends Error {
  readonly status: number;
  constructor(status: number) {
    super(`status ${status}`);
    this.status = status;
  }
}

const cookieName = "Counter___one";
const secret = "a secret key";

/** Signs as itsdangerous' TimestampSigner does. */
function signed(id: string, key: string): string {
  const derived = createHash("sha1").update(`itsdangerous.Signersigner${key}`).digest();
  const content = `${Buffer.from(JSON.stringify({ session_id: id })).toString("base64url")}.aQbC_w`;
  return `${content}.${createHmac("sha1", derived).update(content).digest("base64url")}`;
}

const isSigned = (value: string, key: string): boolean => {
  const derived = createHash("sha1").update(`itsdangerous.Signersigner${key}`).digest();
  const at = value.lastIndexOf(".");
  return createHmac("sha1", derived).update(value.slice(0, at)).digest("base64url") === value.slice(at + 1);
};

const idIn = (value: string): string | undefined => {
  try {
    return (JSON.parse(Buffer.from(value.split(".")[0] ?? "", "base64").toString()) as { session_id: string })
      .session_id;
  } catch {
    return undefined;
  }
};

/** Starts the server. It stops with the test. */
export async function faultyGym(fault: Fault): Promise<string> {
  const processes: Map<string, Session>[] = [new Map(), new Map()];
  let [requests, sessions] = [0, 0];
  const key = fault === "key of the cookie is its name" ? cookieName : secret;
  const shared: Session = { count: 0, answered: new Map() };

  function idOf(header: string | undefined): string | undefined {
    const value = new RegExp(`${cookieName}=([^;]+)`).exec(header ?? "")?.[1];
    if (value === undefined) return undefined;
    if (fault === "session ids are numbers") return value;
    return fault === "signature is not checked" || isSigned(value, key) ? idIn(value) : undefined;
  }

  async function act(path: string, id: string, body: Body, once: string | undefined): Promise<unknown> {
    const states = processes[fault === "two processes that alternate" ? requests % 2 : 0] as Map<string, Session>;
    let session = states.get(id);
    if (fault === "one state for all sessions" && session) session = shared;
    if (path === "/seed_session") {
      if (session && fault === "second seed is ignored") return {};
      if (session && fault !== "seeds with a cookie replace the state") throw new Refusal(409);
      const count = Number(body["initial_count"]) + (fault === "answers vary" ? Math.random() : 0);
      states.set(id, { count, answered: new Map() });
      if (fault === "one state for all sessions") shared.count = count;
      return {};
    }
    if (path === "/verify") {
      const expected = body["expected_count"];
      if (typeof expected !== "number" && fault !== "verify needs no row") throw new Refusal(422);
      if (session && fault === "verify writes") session.count++;
      const best = fault === "partial reward" ? 0.8 : 1;
      return { ...body, reward: session !== undefined && session.count === expected ? best : 0 };
    }
    if (path === "/close_session") {
      if (fault === "closing is not a route") throw new Refusal(404);
      const isKept = fault === "closing does nothing";
      return { closed: session !== undefined && (isKept || states.delete(id)) };
    }
    if (path !== "/increment_counter" && path !== "/get_counter_value") throw new Refusal(404);
    if (!session) {
      if (fault === "crash without a session") throw new Refusal(500);
      if (fault !== "zero state without a session" && fault !== "two processes that alternate") throw new Refusal(409);
      session = { count: 0, answered: new Map() };
      states.set(id, session);
    }
    const repeated = once === undefined || fault === "call ids are ignored" ? undefined : session.answered.get(once);
    if (repeated !== undefined) return repeated;
    const output = await called(path, session, body);
    if (once !== undefined) session.answered.set(once, output);
    return output;
  }

  async function called(path: string, session: Session, body: Body): Promise<unknown> {
    if (path === "/get_counter_value") return { count: session.count };
    const by = body["count"];
    if (typeof by !== "number" || Array.isArray(body)) throw new Refusal(fault === "bad arguments crash" ? 500 : 422);
    const before = session.count;
    if (fault === "await between read and write") await nextTurn();
    session.count = before + by;
    return { success: true };
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    requests++;
    let text = "";
    for await (const chunk of request) text += String(chunk);
    const path = (request.url ?? "").replace(/^\/ng-rollout\/[^/]+/, "");
    const id =
      idOf(request.headers.cookie) ??
      (fault === "session ids are numbers" ? String(++sessions) : randomBytes(8).toString("hex"));
    const value = fault === "session ids are numbers" ? id : signed(id, key);
    const headers = { "set-cookie": `${cookieName}=${value}; path=/; httponly` };
    if (request.method === "GET") return void response.writeHead(200, headers).end("{}");
    let body: unknown;
    try {
      body = JSON.parse(text);
    } catch {
      const isCrash = fault === "crash sets no cookie";
      return void response.writeHead(isCrash ? 500 : 422, isCrash ? {} : headers).end("{}");
    }
    try {
      const once = request.headers["idempotency-key"] as string | undefined;
      const fields = (typeof body === "object" && body !== null ? body : {}) as Body;
      const output = await act(path, id, fields, once);
      response.writeHead(200, headers).end(JSON.stringify(output));
    } catch (thrown) {
      if (!(thrown instanceof Refusal)) throw thrown;
      const hasCookie = fault !== "refusals set no cookie" || thrown.status >= 500;
      response.writeHead(thrown.status, hasCookie ? headers : {}).end(JSON.stringify({ detail: thrown.message }));
    }
  }

  return listening(
    createServer((request, response) => void handle(request, response).catch(() => request.socket.destroy())),
  );
}
