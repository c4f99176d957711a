// A model behind an HTTP API: sends requests, reads answers and streams, and retries. An `Api` has the API's details.
import { HoldfastError, messageOf } from "../../core/errors.ts";
import { isObject, parseJson, setOwn } from "../../core/json.ts";
import type { Model, ModelRequest, ModelResponse, Piece, RespondOptions } from "../../core/model.ts";
import { toPieces } from "../local-response.ts";
import { resolveEndpoint, type Endpoint, type EndpointDefaults, type EndpointOptions } from "./endpoint.ts";
import { exchange, ExchangeError, type Answer, type ExchangeRequest } from "../../io/exchange.ts";
import { broken, cancelled, complaintIn, Fault, complaintFault, statusFault, shortened } from "./fault.ts";
import type { Fields } from "./fields.ts";
import { retrying, retryAfter, waitFor, type Wait } from "./retry.ts";
import { parseEvents } from "./sse.ts";

/** One API: translates requests and answers. */
export interface Api extends EndpointDefaults {
  /** Returns a request's body without `stream`: a new object, to which fields are added. */
  body(request: ModelRequest, about: Pick<Endpoint, "isPublic"> & Pick<RespondOptions, "maxTokens">): Fields;
  /** Returns the fields that ask for a stream. */
  streaming: (body: Fields) => Fields;
  /** Reads an answer; throws a Fault if it is invalid. */
  answer(body: Fields, request: ModelRequest): ModelResponse;
  reader(request: ModelRequest, onPiece: (piece: Piece) => void): StreamReader;
}

export interface StreamReader {
  /** Takes an event; returns the answer if it is complete. */
  take(event: Fields): ModelResponse | undefined;
  /** Called after the last event; returns the answer if it is complete. */
  end(): ModelResponse | undefined;
}

/** The request fields that `anthropic` and `chat` rename or convert. All others are passed through. */
export const mapped = ["instructions", "input", "tools", "tool_choice", "parallel_tool_calls", "max_output_tokens"];

/** Timing that only tests set. */
export interface Timing {
  wait?: Wait;
  /** Maximum milliseconds between two parts of a stream. */
  idle?: number;
}

export function remoteModel(
  api: Api,
  options: EndpointOptions,
  { wait = waitFor, idle = 120_000 }: Timing = {},
): Model {
  const endpoint = resolveEndpoint(api, options);
  const name = `${api.name}:${options.model}`;
  const settings = { model: options.model, ...options.request };
  const { origin, pathname, search } = new URL(endpoint.url);
  const path = pathname + search;
  const { attempts, timeout } = endpoint;
  const limits = { timeout, idle };
  const headers = {
    whole: { accept: "application/json", ...endpoint.headers },
    stream: { accept: "text/event-stream, application/json", ...endpoint.headers },
  };

  async function respond(
    given: ModelRequest,
    { signal, onPiece, maxTokens }: RespondOptions = {},
  ): Promise<ModelResponse> {
    const request = merged(settings, given);
    const body = bodyText(api.body(request, { isPublic: endpoint.isPublic, maxTokens }), api, onPiece !== undefined);
    const message = { origin, path, headers: headers[onPiece ? "stream" : "whole"], body, limits, signal };
    const fail = (fault: Fault, made: number): Error => toError(fault, made, name, endpoint);
    return retrying({ attempts, signal, wait, fail }, () => attempt(message, request, onPiece));
  }

  async function attempt(message: Post, request: ModelRequest, onPiece?: (piece: Piece) => void) {
    let handed = false;
    const hand = (piece: Piece): void => {
      if (!onPiece || piece.text === "") return;
      handed = true;
      onPiece(piece);
    };
    try {
      return await post(message, (answer) => read(answer, onPiece !== undefined, request, hand));
    } catch (thrown) {
      // No retry after the first piece: the caller would get pieces twice, and perhaps pieces of a different answer.
      const isLast = thrown instanceof Fault && thrown.again && handed;
      throw isLast ? new Fault(thrown.message, { ...thrown, again: false }) : thrown;
    }
  }

  async function read(answer: Answer, asked: boolean, request: ModelRequest, hand: (piece: Piece) => void) {
    const { status, headers } = answer;
    const type = String(headers["content-type"] ?? "");
    if (status < 200 || status > 299) {
      const text = await answer.text();
      throw statusFault(status, parseJson(text), text, retryAfter(headers));
    }
    // Servers label streams inconsistently. Some send a complete answer if a stream was requested, or the reverse.
    const isStream = /event-stream/.test(type) || (asked && !/json|html/.test(type));
    if (isStream) return readStream(answer, api.reader(request, hand));
    const response = readWhole(await answer.text(), type, request);
    if (asked) for (const piece of response.output.flatMap(toPieces)) hand(piece);
    return response;
  }

  function readWhole(text: string, type: string, request: ModelRequest): ModelResponse {
    const body = parseJson(text);
    if (body === undefined) {
      if (text === "") throw broken("an empty body");
      throw broken(`${type || "a body"} that is not JSON (is the base URL correct?)`, text);
    }
    if (!isObject(body)) throw broken("JSON that is not an object", text);
    return api.answer(body, request);
  }

  return { name, respond };
}

type Post = Omit<ExchangeRequest, "method">;

/** Sends a request once. A fault says whether a retry may help. */
async function post<T>(request: Post, read: (answer: Answer) => Promise<T>): Promise<T> {
  try {
    return await exchange(request, read);
  } catch (thrown) {
    if (thrown instanceof Fault) throw thrown;
    if (request.signal?.aborted) throw cancelled(request.signal);
    if (!(thrown instanceof ExchangeError)) throw thrown;
    const code = thrown.kind === "timeout" ? "model_timeout" : "model_failed";
    throw new Fault(thrown.message, { code, again: thrown.kind !== "too_large" });
  }
}

async function readStream(answer: Answer, reader: StreamReader): Promise<ModelResponse> {
  let response: ModelResponse | undefined;
  try {
    for await (const data of parseEvents(answer.stream())) {
      // After the answer is complete, the rest is read and ignored, so that the connection can be reused.
      if (response) continue;
      response = data === "[DONE]" ? reader.end() : reader.take(eventIn(data));
      if (data === "[DONE]" && !response) break;
      if (response) answer.finish();
    }
  } catch (thrown) {
    if (!response) throw thrown;
  }
  response ??= reader.end();
  if (!response) throw new Fault("ended its stream before the answer was complete", { again: true });
  return response;
}

function eventIn(data: string): Fields {
  const event = parseJson(data);
  if (!isObject(event)) throw broken("an event that is not a JSON object", data);
  const complaint = isError(event) ? complaintIn(event) : undefined;
  if (complaint) throw complaintFault(complaint);
  return event;
}

const isError = ({ type, object, error }: Fields): boolean =>
  type === "error" || object === "error" || (type === undefined && error !== undefined && error !== null);

/** Merges settings. The request's settings take precedence over the model's settings. Undefined fields are ignored. */
function merged(settings: Partial<ModelRequest>, given: ModelRequest): ModelRequest {
  const request: Fields = {};
  for (const fields of [settings, given]) {
    // Avoids `{ ...settings, ...given }`, because a second spread takes ten times as long.
    for (const name of Object.keys(fields)) if (fields[name] !== undefined) setOwn(request, name, fields[name]);
  }
  return request as ModelRequest;
}

function bodyText(body: Fields, api: Api, asked: boolean): string {
  if (asked) Object.assign(body, api.streaming(body));
  // JSON.stringify omits an undefined field.
  body["stream"] = asked || undefined;
  try {
    return JSON.stringify(body);
  } catch (cause) {
    throw new HoldfastError("not_json", `the request cannot be sent as JSON: ${messageOf(cause)}`, { cause });
  }
}

function toError(fault: Fault, attempts: number, name: string, { shown, hide, keyAdvice }: Endpoint): HoldfastError {
  const { code, status, reason, said, cause } = fault;
  const advice = status === 401 || status === 403 ? `; ${keyAdvice}` : "";
  const tries = attempts > 1 ? ` (${attempts} attempts)` : "";
  const detail = {
    ...(status === undefined ? {} : { status }),
    ...(reason === undefined ? {} : { reason: shortened(hide(reason)) }),
    attempts,
  };
  const what = hide(fault.message) + (said === undefined ? "" : `: ${shortened(hide(said))}`);
  return new HoldfastError(code, `${name} at ${shown} ${what}${advice}${tries}`, { detail, cause });
}
