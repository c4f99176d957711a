// modelProxy(): serves a model to a harness, in the three model APIs that harnesses speak. Each exchange becomes one
// event of the harness's session.
import { hash } from "node:crypto";
import { HoldfastError, isHoldfastError } from "../core/errors.ts";
import { isObject } from "../core/json.ts";
import type { Model, ModelRequest } from "../core/model.ts";
import type { DecoratingProtocol, Reply, Request } from "../core/protocol.ts";
import type { ModelLimits } from "../core/model-exchange.ts";
import type { ModelAnswer, Sessions } from "../core/sessions.ts";
import type { Bindings } from "./http/mcp-binding.ts";
import { within } from "./http/within.ts";
import { chat } from "./http/dialects/chat.ts";
import { readFor, tooLong, type Dialect, type Fields } from "./http/dialects/dialect.ts";
import { responses } from "./http/dialects/responses.ts";
import { messages } from "./model-proxy/messages.ts";

/** The model that answers a session's harness. */
export interface ProxiedModel {
  model: Model;
  /** Fields for every request, such as the temperature. A harness cannot choose them. */
  settings?: Partial<ModelRequest> | undefined;
  limits?: ModelLimits | undefined;
}

export interface ModelProxyOptions {
  sessions: Sessions;
  /** Reads session tokens. */
  bindings: Bindings;
  /** Returns the model for a session; undefined if it has none. */
  modelFor(session: string): ProxiedModel | undefined;
  /** The reply for a session without a model. */
  noModel?: HoldfastError;
  /** Milliseconds until a stream starts, and between two keep-alive events in it. */
  pace?: { after: number; every: number };
}

const defaultPace = { after: 1_000, every: 5_000 };
const dialects: { [path: string]: Dialect } = { responses, "chat/completions": chat, messages };

/** Matches `/m/TOKEN/v1/...`, `/v1/...` with the token as the API key, and NeMo Gym's `/ng-rollout/TOKEN/v1/...`. */
const pathPattern =
  /^(?:\/(?:m|ng-rollout)\/([^/]+)(?:\/training-token-capture)?)?\/v1\/(responses|chat\/completions|messages|models)\/?$/;

/**
 * Serves the models of one environment's sessions. The token names the session, so any replica can serve any request.
 *
 * @example
 * const protocol = modelProxy({ sessions, bindings, modelFor: () => ({ model }) });
 */
export function modelProxy({
  sessions,
  bindings,
  modelFor,
  noModel = notServed,
  pace = defaultPace,
}: ModelProxyOptions): DecoratingProtocol {
  async function answer(request: Request, token: string | undefined, name: string): Promise<Reply> {
    const dialect = dialects[name] ?? responses;
    const session = sessionOf(request, token);
    if (session === undefined) return failure(dialect, unknownToken);
    const served = modelFor(session);
    if (!served) return failure(dialect, noModel);
    const about = { session };
    if (name === "models") {
      if (request.method !== "GET") return failure(dialect, notAllowed(request.method, "GET"));
      return { status: 200, about, body: { object: "list", data: [{ id: served.model.name, object: "model" }] } };
    }
    if (request.method !== "POST") return failure(dialect, notAllowed(request.method, "POST"));
    const { body } = request;
    if (!isObject(body)) return failure(dialect, new HoldfastError("invalid_option", "the body must be an object"));
    const asking = asked(request, dialect, session, served, body);
    const render = (found: ModelAnswer): Rendered => {
      const id = hash("sha256", `${session} ${found.version}`, "hex").slice(0, 24);
      const created = Math.floor(found.at / 1000);
      return { dialect, answer: { id, created, response: found.response, body }, isRepeated: found.repeated };
    };
    try {
      if (body["stream"] !== true) return { ...wholeReply(render(await asking)), about };
      // A failure before the stream starts gets an error status, which clients understand better than an event.
      const quick = await within(asking, pace.after);
      if (quick) return { ...streamReply(render(quick)), about };
      return { status: 200, about, quiet: true, isRun: true, stream: waiting(asking, render, dialect) };
    } catch (thrown) {
      if (!isHoldfastError(thrown)) throw thrown;
      return { ...failure(dialect, thrown), about };
    }
  }

  function asked(
    { headers }: Request,
    dialect: Dialect,
    session: string,
    { model, settings, limits }: ProxiedModel,
    body: Fields,
  ): Promise<ModelAnswer> {
    const retries = Number(headers["x-stainless-retry-count"] ?? 0);
    // Parses the body in a promise, so that a malformed body is refused like any other failure.
    return Promise.resolve().then(() =>
      sessions.askModel(session, readFor(dialect, body, model.name), {
        model: model.name,
        respond: (request, signal) =>
          model.respond({ ...request, ...settings }, { signal, maxTokens: maxTokensIn(body) }),
        call: headers["idempotency-key"],
        isRepeat: retries > 0,
        limits,
      }),
    );
  }

  async function* waiting(
    asking: Promise<ModelAnswer>,
    render: (found: ModelAnswer) => Rendered,
    dialect: Dialect,
  ): AsyncGenerator<string> {
    try {
      let found: ModelAnswer | undefined;
      while (!found) {
        yield dialect.keepAlive;
        found = await within(asking, pace.every);
      }
      const { answer } = render(found);
      yield* dialect.frames(answer);
    } catch (thrown) {
      const error = isHoldfastError(thrown) ? thrown : unexpected;
      const { status, code, message } = toFault(error);
      yield dialect.errorFrame(dialect.error(status, code, message));
      // Throws again, so that the server logs the failure and cuts the connection.
      if (error === unexpected) throw thrown;
    }
  }

  /** Returns the session that the request's token names. The token is in the path, or else it is the API key. */
  function sessionOf({ headers }: Request, token: string | undefined): string | undefined {
    const [, bearer] = /^bearer +(\S+) *$/i.exec(headers["authorization"] ?? "") ?? [];
    for (const given of [token, headers["x-api-key"], bearer]) {
      const binding = given === undefined ? undefined : bindings.parse(given);
      if (binding) return binding.session;
    }
    return undefined;
  }

  return {
    name: "model proxy",
    checksToken: (path) => pathPattern.test(path),
    handle(request) {
      const [, token, name] = request.path.includes("/v1/") ? (pathPattern.exec(request.path) ?? []) : [];
      return name === undefined ? undefined : answer(request, token, name);
    },
    decorate(request, reply) {
      const [, , name] = pathPattern.exec(request.path) ?? [];
      const { error } = Object(reply.body) as { error?: { code?: unknown; message?: unknown } };
      if (name === undefined || typeof error?.code !== "string") return reply;
      const dialect = dialects[name] ?? responses;
      return { ...reply, body: dialect.error(reply.status, error.code, String(error.message)) };
    },
  };
}

/** Returns the limit on the answer's tokens, under the names that the three APIs have for it. */
function maxTokensIn({ max_tokens, max_completion_tokens, max_output_tokens }: Fields): number | undefined {
  const found = [max_tokens, max_completion_tokens, max_output_tokens].find((value) => typeof value === "number");
  return found as number | undefined;
}

interface Rendered {
  dialect: Dialect;
  answer: Parameters<Dialect["whole"]>[0];
  isRepeated: boolean;
}

const repeatedHeader = (isRepeated: boolean): Pick<Reply, "headers"> =>
  isRepeated ? { headers: { "holdfast-repeated": "true" } } : {};

const wholeReply = ({ dialect, answer, isRepeated }: Rendered): Reply => ({
  status: 200,
  body: dialect.whole(answer),
  ...repeatedHeader(isRepeated),
});

const streamReply = ({ dialect, answer, isRepeated }: Rendered): Reply => ({
  status: 200,
  text: dialect.frames(answer).join(""),
  headers: { "content-type": "text/event-stream", ...repeatedHeader(isRepeated).headers },
});

/** Returns the status and code that a client of a model API understands. */
function toFault(thrown: HoldfastError): { status: number; code: string; message: string } {
  const { code, status, message, detail } = thrown;
  // A harness gets the same code for every way in which its episode can end.
  if (code === "session_closed") return { status: 409, code: "episode_over", message };
  if (!code.startsWith("model_")) return { status, code, message };
  const isRefused = code === "model_refused";
  return {
    // A refused request gets a 400, so that clients do not retry it: the model's server would refuse it again.
    status: isRefused ? 400 : status,
    code: (isRefused && isTooLong(message) ? tooLong : reasonIn(detail["reason"])) ?? code,
    // Hides the address of the model's server from the harness.
    message: message.replaceAll(/ at https?:\/\/\S+/g, ""),
  };
}

/** Returns whether a message is about a request that is too long, for which some servers send no error code. */
const isTooLong = (message: string): boolean =>
  /maximum context length|context (length|window)|prompt is too long/i.test(message);

/** Returns the error code of the model's server. It tells a harness, for example, to shorten its history. */
function reasonIn(reason: unknown): string | undefined {
  return typeof reason === "string" && /^[a-z]\w*$/i.test(reason) ? reason : undefined;
}

/** Statuses at which a later attempt may succeed. */
const passing = new Set([408, 429, 502, 503, 504, 507]);

function failure(dialect: Dialect, thrown: HoldfastError): Reply {
  const { status, code, message } = toFault(thrown);
  // The official clients retry a 409, unless this header forbids it.
  const headers: NonNullable<Reply["headers"]> = { "x-should-retry": String(passing.has(status)) };
  if (status === 503 || status === 429) headers["retry-after"] = "1";
  if (Array.isArray(thrown.detail["allow"])) headers["allow"] = thrown.detail["allow"].join(", ");
  return { status, headers, body: dialect.error(status, code, message), thrown };
}

const unknownToken = new HoldfastError(
  "unauthorized",
  "the session token is missing or wrong; it belongs in the path, as /m/TOKEN/v1, or is the API key",
);
const notServed = new HoldfastError(
  "not_found",
  "this server has no model for the session; start it with --proxy MODEL",
);
const unexpected = new HoldfastError("internal", "internal server error; the server's log has the cause");

const notAllowed = (method: string, allow: string): HoldfastError =>
  new HoldfastError("method_not_allowed", `${method.slice(0, 20)} is not supported here; use ${allow}`, {
    detail: { allow: [allow] },
  });
