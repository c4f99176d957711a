// openaiProtocol(): serves an agent to OpenAI clients: the Responses API with stored responses, and chat completions.
import type { RunEvent } from "../agent/invocation.ts";
import { checkedRequest } from "../agent/run.ts";
import { HoldfastError, invalidOption, isHoldfastError } from "../core/errors.ts";
import type { Labels, NumberedEvent } from "../core/event.ts";
import { isObject } from "../core/json.ts";
import { toText, isFunctionCall, isMessage, type Item, type ToolSchema } from "../core/model.ts";
import { notAllowed, type DecoratingProtocol, type Reply, type Request } from "../core/protocol.ts";
import { assertResults } from "../session/turn.ts";
import { chat } from "./http/dialects/chat.ts";
import { openaiError, type Answer, type Fields } from "./http/dialects/dialect.ts";
import { responses } from "./http/dialects/responses.ts";
import { deletedLabel } from "./http/deleted-label.ts";
import { followEvents, streamReply } from "./http/events-reply.ts";
import { streamedOnly } from "./http/is-streamed.ts";
import {
  collectRun,
  runAgent,
  streamRun,
  type CommittedEvent,
  type Ended,
  type Running,
  type ServedAgent,
} from "./http/running.ts";
import { inputItems, wholeNumber } from "./openai/input-items.ts";
import { notOpen, readTools, splitHistory, splitInput, type Asked } from "./openai/client-calls.ts";
import { createSenders, type Place, type Sender } from "./openai/sender.ts";
import { createChatStream, createResponseStream } from "./openai/stream.ts";
import {
  addToTurn,
  answeredBy,
  isBegan,
  isEnding,
  openAfter,
  parseResponseId,
  readTurn,
  responseId,
  summarize,
  type Summary,
  type Turn,
} from "./openai/turn.ts";

const pathPattern =
  /^\/v1\/(?:(models|responses|chat\/completions)|(models|responses)\/([^/]+)(?:\/(cancel|input_items))?)$/;

/**
 * Serves one agent. A response is a turn, and a conversation is a session.
 *
 * @example
 * const protocol = openaiProtocol({ agent, sessions });
 * const reply = await protocol.handle(request); // of POST /v1/responses
 */
export function openaiProtocol(served: ServedAgent): DecoratingProtocol {
  const { agent, sessions } = served;
  const readSender = createSenders(sessions);

  /** Returns where a request runs: in the conversation that it continues, in a branch, or in a new conversation. */
  async function findPlace(body: Fields, asked: Asked, sender: Sender): Promise<Place> {
    const lost = sender.takeLost();
    if (lost) return lost;
    const { previous, conversation } = placeOf(body);
    const { response } = asked;
    const { call } = sender;
    const id = previous ?? (response === undefined ? undefined : `resp_${response}`);
    if (id === undefined) return { session: conversation ?? (await sender.openFirst(text(body, "user"))), call };
    const { session, turn } = await findTurn(id);
    // Refuses results for another response. Models repeat call ids, so the id alone could match the wrong call.
    if (response !== undefined && id !== `resp_${response}`) throw notOpen(asked.results[0]?.call_id ?? "");
    const { next, seen, began, events } = turn;
    const repeated = next && isBegan(next) && sender.isRepeat(next) ? next : undefined;
    if (conversation !== undefined && (session !== conversation || (next && !repeated))) {
      throw notOpen(asked.results[0]?.call_id ?? "");
    }
    if (!next) return { session, call, seen };
    if (repeated) return { session, call: repeated.call };
    // Checks the results before the fork. Otherwise, a refused request would leave a branch behind.
    assertResults(
      session,
      openAfter(turn),
      asked.results.map(({ call_id }) => call_id),
    );
    // The response was already continued, so this request continues it in a fork.
    const version = events.at(-1)?.version ?? began.version;
    const fork = (child?: string) => sessions.fork(session, { version, session: child });
    return { session: await sender.openBranch(id, fork), call };
  }

  /** Returns the turn of a response, if the response was not deleted. */
  async function findTurn(id: string): Promise<{ session: string; turn: Turn }> {
    const { session, began } = parseResponseId(id) ?? { session: "", began: 0 };
    const turn = await readTurn(sessions, session, began);
    if (!turn || turn.isDeleted) throw missing(id);
    return { session, turn };
  }

  /** Starts the run of a request. `place` says which conversation it continues. */
  async function start(
    request: Request,
    place: Fields,
    asked: Asked,
    tools: ToolSchema[],
    isStream: boolean,
  ): Promise<{ session: string; began: number; running: Running }> {
    const { message, results } = asked;
    const isAnswering = results.length > 0;
    const options = {
      message: isAnswering && message.length === 0 ? undefined : message.map(plainText),
      results: isAnswering ? results : undefined,
      // With results, an empty list removes the client's tools, because a client sends its tools with every request.
      clientTools: isAnswering || tools.length > 0 ? tools : undefined,
      labels: labelsOf(place),
      signal: request.signal,
      stream: isStream,
      busy: "refuse" as const,
    };
    // Checks the request before a session is opened. Otherwise, a refused request would leave a session behind.
    const { family } = checkedRequest(agent, { ...options, call: request.headers["idempotency-key"] });
    const sender = readSender(request);
    for (;;) {
      const found = await findPlace(place, asked, sender);
      const { session } = found;
      sender.begin(found);
      const running = runAgent(served, { ...options, sessions, ...found });
      try {
        // A run's first event begins its part of the turn, also if the run continues an interrupted turn.
        const first = await running.next();
        const began = first.done ? 0 : (first.value as CommittedEvent).version;
        return { session, began, running: streamedOnly(family, first, running) };
      } catch (thrown) {
        await running.return(undefined as never);
        // If another request continued the response in the meantime, this request begins a branch.
        if (!isHoldfastError(thrown) || thrown.detail["seen"] === undefined) throw thrown;
      }
    }
  }

  const answerOf = (body: Fields, id: string, created: number, { response }: Summary): Answer => ({
    id,
    created: Math.floor(created / 1000),
    response: { ...response, model: agent.name },
    body: { ...body, model: body["model"] ?? agent.name },
  });

  function toResponse(body: Fields, id: string, session: string, created: number, summary: Summary) {
    const { status, error } = summary;
    const whole = responses.whole(answerOf(body, id, created, summary)) as Fields;
    const { metadata, tools, previous_response_id: previous } = body;
    return {
      ...whole,
      status,
      error,
      conversation: { id: session },
      metadata: isObject(metadata) ? metadata : {},
      tools: Array.isArray(tools) ? tools : [],
      previous_response_id: typeof previous === "string" ? previous : null,
    };
  }

  async function createResponse(request: Request): Promise<Reply> {
    const body = readBody(request);
    if (body["background"] === true)
      throw invalidOption("`background` is not supported; wait for the response or stream it");
    const tools = readTools(body, false);
    const { previous_response_id: _previous, conversation: _conversation, instructions, ...plain } = body;
    const { input } = responses.read(plain);
    const { previous, conversation } = placeOf(body);
    const isPlaced = previous !== undefined || conversation !== undefined;
    const asked = isPlaced ? splitInput(input) : splitHistory(input);
    // A request with results continues a turn, and the turn already has its instructions.
    if (typeof instructions === "string" && instructions !== "" && asked.results.length === 0) {
      asked.message = [{ type: "message", role: "developer", content: instructions }, ...asked.message];
    }
    refuseEmpty(asked, "input");
    const isStream = body["stream"] === true;
    const { session, began, running } = await start(request, body, asked, tools, isStream);
    const about = { session };
    const created = Date.now();
    const id = responseId(session, began);
    const end = async (): Promise<ReturnType<typeof toResponse>> => {
      const turn = await readTurn(sessions, session, began);
      return toResponse(body, id, session, turn?.began.at ?? created, summarize(id, turn ?? nothing));
    };
    /** Returns the response of a turn that was cancelled. Throws any other failure again. */
    const endCancelled = async (thrown: unknown): Promise<ReturnType<typeof toResponse>> => {
      const response = await end();
      if (response.status !== "cancelled" || request.signal.aborted) throw thrown;
      return response;
    };
    if (!isStream) return { status: 200, body: await collectRun(running).then(end, endCancelled), about };
    const stream = responseStream(body, id, session, created);
    let isBegun = false;
    const reply = await streamRun(running, request.signal, {
      event(event) {
        const begun = isBegun ? "" : stream.begin();
        isBegun = true;
        return begun + stream.add(event);
      },
      done: async () => stream.end(await end()),
      error: (thrown) =>
        endCancelled(thrown).then(stream.end, ({ code, message }: HoldfastError) => stream.error(code, message)),
    });
    return { ...reply, about };
  }

  function responseStream(body: Fields, id: string, session: string, created: number, startingAfter?: number) {
    const empty = toResponse(body, id, session, created, summarize(id, nothing));
    return createResponseStream(id, { ...empty, usage: null }, startingAfter);
  }

  async function complete(request: Request): Promise<Reply> {
    const body = readBody(request);
    const tools = readTools(body, true);
    const asked = splitHistory(chat.read(body).input);
    refuseEmpty(asked, "messages");
    const isStream = body["stream"] === true;
    const { session, began, running } = await start(request, { user: body["user"] }, asked, tools, isStream);
    const about = { session };
    const id = responseId(session, began);
    const created = Date.now();
    const whole = async (ended: Ended, events: NumberedEvent[]): Promise<Fields> => {
      // Reads the log, because only the log says how a turn with several agents or attempts ended.
      const summary = summarize(id, (await readTurn(sessions, session, began)) ?? { events });
      if (summary.error) throw new HoldfastError("model_failed", summary.error.message);
      const { output: made } = summary.response;
      const said = made.flatMap((item) => (isMessage(item) ? toText(item.content) : [])).join("\n\n");
      const spoken: Item = { type: "message", role: "assistant", content: said };
      const response = { ...summary.response, output: [spoken, ...made.filter(isFunctionCall)] };
      return chat.whole(answerOf(body, ended.invocation, created, { ...summary, response })) as Fields;
    };
    if (!isStream) {
      const ran = await collectRun(running);
      return { status: 200, body: await whole(ran, ran.events), about };
    }
    const { include_usage: isCounted } = Object(body["stream_options"]) as Fields;
    let stream: ReturnType<typeof createChatStream> | undefined;
    const events: NumberedEvent[] = [];
    const reply = await streamRun(running, request.signal, {
      event(event) {
        if (event.type !== "partial") events.push(event);
        const head = {
          id: `chatcmpl-${event.invocation}`,
          created: Math.floor(created / 1000),
          model: body["model"] ?? agent.name,
        };
        const begun = stream ? "" : (stream = createChatStream(id, head, isCounted === true)).begin();
        return begun + (stream as NonNullable<typeof stream>).add(event);
      },
      async done(ended) {
        const { choices, usage } = await whole(ended, events);
        return stream?.end((choices as { finish_reason: string }[])[0]?.finish_reason ?? "stop", usage) ?? "";
      },
      error: ({ status, code, message }) => chat.errorFrame(openaiError(status, code, message)),
    });
    return { ...reply, about };
  }

  async function storedResponse(request: Request, part: string, verb: string | undefined): Promise<Reply> {
    const { method, path, query, signal } = request;
    const allowed = verb === "cancel" ? ["POST"] : verb === "input_items" ? ["GET"] : ["GET", "DELETE"];
    if (!allowed.includes(method)) throw notAllowed(path, method, allowed);
    const given = decoded(part);
    const { session, turn } = await findTurn(given);
    const { began, next } = turn;
    const about = { session };
    const id = responseId(session, began.version);
    if (method === "DELETE") {
      await sessions.label(session, { [deletedLabel(began.version)]: true });
      return { status: 200, body: { id: given, object: "response", deleted: true }, about };
    }
    if (verb === "input_items") {
      const answered = await answeredBy(sessions, session, began);
      return { status: 200, body: inputItems(id, began, answered, query), about };
    }
    const asked = { ...began.labels, tools: began.tools };
    const render = (read: Turn) => toResponse(asked, id, session, began.at, summarize(id, read));
    const isRunning = !next && render(turn).status === "in_progress";
    if (verb === "cancel" && isRunning && (await sessions.cancel(session, { invocation: began.invocation }))) {
      return { status: 200, body: render((await findTurn(given)).turn), about };
    }
    if (query.get("stream") !== "true") return { status: 200, body: render(turn), about };
    const stream = responseStream(asked, id, session, began.at, wholeNumber(query, "starting_after", -1));
    async function* frames(): AsyncGenerator<string, void, undefined> {
      const read: Turn = { ...turn, events: [] };
      delete read.next;
      // Earlier events do not end the stream: the turn may have failed or stopped at one of them, and then continued.
      const known = turn.events.at(-1)?.version ?? 0;
      yield* unlessEmpty(stream.begin());
      // Follows the log, because any server may run the turn.
      for await (const event of followEvents(sessions, session, { after: began.version, signal })) {
        addToTurn(read, event);
        if (read.events.at(-1) === event) yield* unlessEmpty(stream.add(event as RunEvent));
        const isOver = isEnding(event) && event.version >= known && render(read).status !== "in_progress";
        if (read.next || isOver) break;
      }
      if (!signal.aborted) yield* unlessEmpty(stream.end(render(read)));
    }
    return { ...streamReply(frames()), about };
  }

  async function answer(request: Request, [, name, kind, id = "", verb]: RegExpExecArray): Promise<Reply> {
    if (kind === "responses") return storedResponse(request, id, verb);
    const { method } = request;
    const allowed = name === "models" || kind === "models" ? "GET" : "POST";
    if (method !== allowed) throw notAllowed(request.path, method, [allowed]);
    if (name === "responses") return createResponse(request);
    if (name === "chat/completions") return complete(request);
    const model = { id: agent.name, object: "model", created: 0, owned_by: "holdfast" };
    if (name === "models") return { status: 200, body: { object: "list", data: [model] } };
    if (id !== agent.name || verb !== undefined)
      throw new HoldfastError("not_found", `there is no model ${id.slice(0, 100)}`);
    return { status: 200, body: model };
  }

  return {
    name: "openai",
    handle(request) {
      const found = pathPattern.exec(request.path);
      return found ? answer(request, found) : undefined;
    },
    decorate(request, reply) {
      const { error } = Object(reply.body) as { error?: { code?: unknown; message?: unknown } };
      if (!pathPattern.test(request.path) || typeof error?.code !== "string" || "type" in error) return reply;
      // Stops retries of the official clients: a 409 would be refused again, and a 408 is for a cancelled turn.
      const isFinal = reply.status === 409 || error.code === "run_cancelled";
      const headers = isFinal ? { ...reply.headers, "x-should-retry": "false" } : reply.headers;
      const body = openaiError(reply.status, error.code, String(error.message));
      return { ...reply, body, ...(headers && { headers }) };
    },
  };
}

function refuseEmpty({ message, results }: Asked, name: string): void {
  if (message.length + results.length === 0) throw invalidOption(`\`${name}\` must not be empty`);
}

function readBody({ body }: Request): Fields {
  if (!isObject(body)) throw invalidOption("the body must be an object");
  return body;
}

/** Returns the response or the conversation that a request continues. */
function placeOf(body: Fields): { previous: string | undefined; conversation: string | undefined } {
  const previous = text(body, "previous_response_id");
  const given = body["conversation"];
  const conversation = isObject(given) ? text(given, "id") : text(body, "conversation");
  if (previous !== undefined && conversation !== undefined) {
    throw invalidOption("send either `previous_response_id` or `conversation`, not both");
  }
  return { previous, conversation };
}

/** Returns the fields of a request that its response repeats. */
function labelsOf({ metadata, previous_response_id: previous }: Fields): Labels | undefined {
  const labels: Labels = {};
  if (isObject(metadata)) labels["metadata"] = metadata as Labels;
  if (typeof previous === "string") labels["previous_response_id"] = previous;
  return Object.keys(labels).length > 0 ? labels : undefined;
}

/** A response without events. */
const nothing: Pick<Turn, "events"> = { events: [] };

/** Returns a frame, unless the client already has all its events. */
const unlessEmpty = (frame: string): string[] => (frame === "" ? [] : [frame]);

/** Returns a message with only text as a string, as agents and models expect most often. */
function plainText(item: Item): Item {
  // Items other than messages with parts stay unchanged. The run checks them.
  if (!isMessage(item) || !Array.isArray(item.content)) return item;
  const isText = item.content.every(
    (part) => isObject(part) && (part.type === "input_text" || part.type === "output_text"),
  );
  return isText ? { ...item, content: toText(item.content) } : item;
}

function text(fields: Fields, name: string): string | undefined {
  const value = fields[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string" && value !== "") return value;
  throw invalidOption(`\`${name}\` must be a string`);
}

/** Decodes a response's id in a path. It contains the session's id, in which an ADK client may use any characters. */
function decoded(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    throw missing(id);
  }
}

const missing = (id: string): HoldfastError =>
  new HoldfastError("not_found", `there is no response ${id.slice(0, 100)}; its conversation may have ended`);
