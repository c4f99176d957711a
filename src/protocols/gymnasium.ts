// gymnasiumProtocol(): serves an environment to NeMo Gym's gymnasium agents. Each request becomes one or more requests
// of the gym protocol.
import type { AnyEnvironment } from "../core/environment.ts";
import { HoldfastError, isHoldfastError } from "../core/errors.ts";
import { isObject, jsonOrText, type Json } from "../core/json.ts";
import { isFunctionCall, type Item } from "../core/model.ts";
import { errorReply, type Protocol, type Reply, type Request } from "../core/protocol.ts";
import type { TaskRow } from "../core/rollout.ts";
import { readCallId } from "./http/call-id.ts";

export interface GymnasiumProtocolOptions {
  /** The environment's gym protocol. */
  gym: Protocol;
  environment: AnyEnvironment;
}

/** Tells agents to close their sessions, and to send an id with each step. */
const info = { supports_explicit_close: true, supports_step_idempotency: true };

/** The field with the id of a step. */
const stepField = "_ng_step_request_id";

/**
 * Serves `/reset`, `/step` and `/close`. A step calls the tools in the model's response. A response without tool calls
 * ends the episode, which is then verified.
 *
 * @example
 * const protocol = gymnasiumProtocol({ gym: gymProtocol({ sessions, tokens, aggregate }), environment });
 */
export function gymnasiumProtocol({ gym, environment }: GymnasiumProtocolOptions): Protocol {
  /** Sends a request of the gym protocol, by default with the headers of the agent's request. */
  async function send(path: string, body: unknown, request: Request, headers = request.headers): Promise<Reply> {
    const reply = await gym.handle(new Forwarded(request, path, body, headers));
    if (reply) return reply;
    throw new HoldfastError("not_found", `no route matches ${path}`);
  }

  async function reset(request: Request): Promise<Reply> {
    // Removes this field, because without it the gym protocol answers an invalid row with an error status, not 200.
    const { responses_create_params: _, ...row } = rowIn(request);
    const reply = await send("/seed_session", row, request);
    return isOk(reply) ? { ...reply, body: { observation: null, info } } : reply;
  }

  async function step(request: Request): Promise<Reply> {
    const { response, [stepField]: id, ...row } = rowIn(request);
    const calls = callsIn(response);
    if (calls.length > 0) return callTools(request, calls, readCallId(id, stepField));
    const reply = await send("/verify", { ...row, response }, request).catch((thrown: unknown) => {
      throw toRefusal(thrown);
    });
    // The gym protocol reports a failed verify in a row with status 200. A step has no such form, so it gets an error.
    if (isHoldfastError(reply.thrown)) {
      return { ...errorReply(toRefusal(reply.thrown) as HoldfastError), headers: reply.headers ?? {} };
    }
    if (!isOk(reply)) return reply;
    const { reward, ...verdict } = reply.body as TaskRow;
    for (const name of [...Object.keys(row), "response"]) delete verdict[name];
    return { ...reply, body: { observation: null, reward, terminated: true, truncated: false, info: verdict } };
  }

  /**
   * Returns the path of a tool. An unknown name is percent-encoded: a model made it up, and it must not reach other
   * paths of the gym protocol. The call is still recorded.
   */
  function toolPath(name: string): string {
    if (environment.definitions.has(name)) return `/${name}`;
    const hex = Buffer.from(name || "?").toString("hex");
    return `/${hex.replaceAll(/../g, "%$&")}`;
  }

  /** Calls tools one after the other. The model reads their errors; any other failure ends the step. */
  async function callTools(
    request: Request,
    calls: ReturnType<typeof callsIn>,
    id: string | undefined,
  ): Promise<Reply> {
    const outputs: object[] = [];
    let last: Reply | undefined;
    for (const [at, { name, text, call }] of calls.entries()) {
      // Sends the cookie from the previous call's reply, because it holds the version that the agent has seen.
      const [cookie] = last?.headers?.["set-cookie"]?.split(";") ?? [];
      const key = id !== undefined ? `${id}.${at}.${call}` : undefined;
      const isPlain = cookie === undefined && key === undefined;
      const added = { ...(cookie !== undefined && { cookie }), ...(key !== undefined && { "idempotency-key": key }) };
      const headers = isPlain ? request.headers : { ...request.headers, ...added };
      // Arguments that are not JSON go to the tool unchanged, so that the model reads the error.
      last = await send(toolPath(name), jsonOrText(text), request, headers);
      if (!isOk(last) && !isForModel(last)) return last;
      outputs.push({ call_id: call, output: last.text ?? JSON.stringify(last.body) });
    }
    const body = { observation: null, reward: 0, terminated: false, truncated: false, info: { tool_outputs: outputs } };
    const { "set-cookie": cookie } = last?.headers ?? {};
    if (cookie !== undefined) return { status: 200, headers: { "set-cookie": cookie }, body, about: last?.about ?? {} };
    // Every reply has the session's cookie, because clients keep only the last reply's cookies.
    return gym.decorate?.(request, { status: 200, body }) ?? { status: 200, body };
  }

  return {
    name: "gymnasium",
    handle(request) {
      if (request.method !== "POST") return undefined;
      if (request.path === "/reset") return reset(request);
      if (request.path === "/step") return step(request);
      return request.path === "/close" ? send("/close_session", {}, request) : undefined;
    },
  };
}

function rowIn({ body }: Request): TaskRow {
  if (isObject(body)) return body as TaskRow;
  throw new HoldfastError("invalid_task", "the body must be a row: a JSON object");
}

/** A request to the gym protocol, made from an agent's request. It reports when the agent disconnects. */
class Forwarded implements Request {
  readonly method = "POST";
  path: string;
  readonly body: unknown;
  readonly headers: Request["headers"];
  readonly #request: Request;

  constructor(request: Request, path: string, body: unknown, headers: Request["headers"]) {
    this.#request = request;
    this.path = path;
    this.body = body;
    this.headers = headers;
  }

  get query(): URLSearchParams {
    return this.#request.query;
  }

  get signal(): AbortSignal {
    return this.#request.signal;
  }

  set gone(gone: Request["gone"]) {
    this.#request.gone = gone;
  }
}

/** Finds a more exact code for a step before a seed or after an episode. If verify itself failed, there is a cause. */
function toRefusal(thrown: unknown): unknown {
  if (!isHoldfastError(thrown) || thrown.code !== "verify_failed" || thrown.cause !== undefined) return thrown;
  const code = thrown.message.startsWith("the session was never seeded") ? "session_unseeded" : "episode_over";
  return new HoldfastError(code, thrown.message);
}

const isOk = ({ status }: Reply): boolean => status < 400;

/** Returns whether a refusal is a tool's answer, and not a failure of the server or the session. */
function isForModel({ thrown, status }: Reply): boolean {
  return status < 500 && (!isHoldfastError(thrown) || thrown.code === "unknown_tool");
}

function callsIn(response: Json | undefined) {
  const { output } = isObject(response) ? response : {};
  const items = Array.isArray(output) ? output.filter(isObject) : [];
  return (items as unknown as Item[]).filter(isFunctionCall).map(({ name, arguments: text, call_id: call }) => ({
    name: toText(name),
    text: toText(text),
    call: toText(call),
  }));
}

const toText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value ?? null));
