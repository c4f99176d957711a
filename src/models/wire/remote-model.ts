// A model behind an HTTP API: sends requests, reads answers and streams, and tries again. What differs is the `Api`.
import { HoldfastError, messageOf } from "../../core/errors.ts";
import { setOwn } from "../../core/json.ts";
import { isFunctionCall, isMessage, textOf, type Item, type Reasoning } from "../../core/model.ts";
import type { Model, ModelRequest, ModelResponse, Piece, RespondOptions } from "../../core/model.ts";
import { endpointOf, type Endpoint, type EndpointDefaults, type EndpointOptions } from "./endpoint.ts";
import type { Answer } from "../../io/exchange.ts";
import { broken, complaintIn, Fault, faultOfComplaint, faultOfStatus, shortened } from "./fault.ts";
import { isFields, parsed, type Fields } from "./fields.ts";
import { post, type Post } from "./http.ts";
import { retrying, retryAfter, waitFor, type Wait } from "./retry.ts";
import { eventsOf } from "./sse.ts";

/** One API: how requests are put into its words, and answers into ours. */
export interface Api extends EndpointDefaults {
  /** Such as "chat". */
  name: string;
  /** The body of a request, less `stream`. A new object, to which more is added. */
  body(request: ModelRequest, endpoint: Pick<Endpoint, "isPublic">): Fields;
  /** Added to the body to ask for a stream. */
  streaming: (body: Fields) => Fields;
  /** Throws a Fault if it is no answer. */
  answer(body: Fields, request: ModelRequest): ModelResponse;
  /** Reads one stream. */
  reader(request: ModelRequest, onPiece: (piece: Piece) => void): StreamReader;
}

export interface StreamReader {
  /** Takes an event, and gives the answer if this was the last one. */
  take(event: Fields): ModelResponse | undefined;
  /** There are no more events. Gives the answer if they were enough for one. */
  end(): ModelResponse | undefined;
}

/** What tests change. */
export interface Patience {
  wait?: Wait;
  /** Milliseconds between two parts of a stream. */
  idle?: number;
}

export function remoteModel(
  api: Api,
  options: EndpointOptions,
  { wait = waitFor, idle = 120_000 }: Patience = {},
): Model {
  const endpoint = endpointOf(api, options);
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

  async function respond(given: ModelRequest, { signal, onPiece }: RespondOptions = {}): Promise<ModelResponse> {
    const request = merged(settings, given);
    const body = bodyText(api.body(request, endpoint), api, onPiece !== undefined);
    const message = { origin, path, headers: headers[onPiece ? "stream" : "whole"], body, limits, signal };
    const fail = (fault: Fault, made: number): Error => errorOf(fault, made, name, endpoint);
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
      // What was handed over cannot be taken back, and another attempt may say something else.
      const isLast = thrown instanceof Fault && thrown.again && handed;
      throw isLast ? new Fault(thrown.message, { ...thrown, again: false }) : thrown;
    }
  }

  async function read(answer: Answer, asked: boolean, request: ModelRequest, hand: (piece: Piece) => void) {
    const { status, headers } = answer;
    const type = String(headers["content-type"] ?? "");
    if (status < 200 || status > 299) {
      const text = await answer.text();
      throw faultOfStatus(status, parsed(text), text, retryAfter(headers));
    }
    // Servers label streams as they like, and some answer with the whole when asked for a stream, or the reverse.
    const isStream = /event-stream/.test(type) || (asked && !/json|html/.test(type));
    if (isStream) return readStream(answer, api.reader(request, hand));
    const response = readWhole(await answer.text(), type, request);
    if (asked) for (const piece of piecesOf(response)) hand(piece);
    return response;
  }

  function readWhole(text: string, type: string, request: ModelRequest): ModelResponse {
    const body = parsed(text);
    if (body === undefined) {
      if (text === "") throw broken("an empty body");
      throw broken(`${type || "a body"} that is not JSON (is the base URL right?)`, text);
    }
    if (!isFields(body)) throw broken("JSON that is no object", text);
    return api.answer(body, request);
  }

  return { name, respond };
}

async function readStream(answer: Answer, reader: StreamReader): Promise<ModelResponse> {
  let response: ModelResponse | undefined;
  try {
    for await (const data of eventsOf(answer.stream())) {
      // Once all is there, the rest is only waited for.
      if (response) continue;
      response = data === "[DONE]" ? reader.end() : reader.take(eventIn(data));
      if (data === "[DONE]" && !response) break;
      if (response) answer.finish();
    }
  } catch (thrown) {
    if (!response) throw thrown;
  }
  response ??= reader.end();
  if (!response) throw new Fault("ended its stream before the answer was whole", { again: true });
  return response;
}

function eventIn(data: string): Fields {
  const event = parsed(data);
  if (!isFields(event)) throw broken("an event that is no JSON object", data);
  const complaint = isError(event) ? complaintIn(event) : undefined;
  if (complaint) throw faultOfComplaint(complaint);
  return event;
}

const isError = ({ type, object, error }: Fields): boolean =>
  type === "error" || object === "error" || (type === undefined && error !== undefined && error !== null);

/** An answer that came whole, in pieces as large as they get. */
function piecesOf({ output }: ModelResponse): Piece[] {
  return output.flatMap((item): Piece | [] => {
    if (isMessage(item)) return { type: "text", text: textOf(item.content) };
    if (isReasoning(item)) return { type: "reasoning", text: textOf(item.summary) };
    if (!isFunctionCall(item)) return [];
    return { type: "arguments", call_id: item.call_id, name: item.name, text: item.arguments };
  });
}

const isReasoning = (item: Item): item is Reasoning => item.type === "reasoning" && Array.isArray(item["summary"]);

/** A request's own settings before those of the model; what is undefined is not set. */
function merged(settings: Partial<ModelRequest>, given: ModelRequest): ModelRequest {
  const request: Fields = {};
  for (const fields of [settings, given]) {
    // Not `{ ...settings, ...given }`: what a spread adds to another takes ten times as long.
    for (const name of Object.keys(fields)) if (fields[name] !== undefined) setOwn(request, name, fields[name]);
  }
  return request as ModelRequest;
}

function bodyText(body: Fields, api: Api, asked: boolean): string {
  if (asked) Object.assign(body, api.streaming(body));
  // What is undefined is not sent.
  body["stream"] = asked || undefined;
  try {
    return JSON.stringify(body);
  } catch (cause) {
    throw new HoldfastError("not_json", `the request cannot be sent as JSON: ${messageOf(cause)}`, { cause });
  }
}

function errorOf(fault: Fault, attempts: number, name: string, { shown, hide, keyAdvice }: Endpoint): HoldfastError {
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
