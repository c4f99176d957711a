// a2aProtocol(): serves an agent to A2A 1.0 clients: its card, and tasks over JSON-RPC with streaming.
import type { RunEvent } from "../agent/invocation.ts";
import { createFamily } from "../agent/transfer.ts";
import { type HoldfastError, invalidOption, isHoldfastError } from "../core/errors.ts";
import { isMessage, toText } from "../core/model.ts";
import { notAllowed, type DecoratingProtocol, type Reply, type Request } from "../core/protocol.ts";
import {
  A2aError,
  errorObject,
  readHistoryLength,
  readRpc,
  noPush,
  readSent,
  text,
  toError,
  type Fields,
  type Id,
  type Rpc,
  type RpcError,
} from "./a2a/message.ts";
import { createTaskStream, isStreamed } from "./a2a/stream.ts";
import { createTask, isTerminal, isWaiting, readTask, taskId, type Task, type TaskReader } from "./a2a/task.ts";
import { followEvents, streamReply } from "./http/events-reply.ts";
import { findBegan } from "./http/find-began.ts";
import { sessionForMessage } from "./http/first-message.ts";
import { errorBody, resultBody } from "./http/json-rpc.ts";
import { detached, runAgent, streamRun, type CommittedEvent, type Running, type ServedAgent } from "./http/running.ts";

export interface A2aProtocolOptions extends ServedAgent {
  /** The path under which the agent is served, such as "/concierge". */
  at: string;
  /** The server's version. */
  version: string;
  /** Requests need a bearer token. */
  isGuarded: boolean;
}

const cardPath = "/.well-known/agent-card.json";
const rpcPath = "/v1/a2a";
const isOurs = (path: string): boolean => path === rpcPath || path === cardPath;

const mostTasks = 100;

/**
 * Serves one agent. A context is a session, and a task is a turn. The message's id is the turn's call id.
 *
 * @example
 * const protocol = a2aProtocol({ agent, sessions, at: "/concierge", version: "1.0.0", isGuarded: false });
 * const card = await protocol.handle(request); // of GET /.well-known/agent-card.json
 */
export function a2aProtocol(options: A2aProtocolOptions): DecoratingProtocol {
  const { agent, sessions, at, version, isGuarded } = options;

  function card({ headers }: Request): object {
    const { name } = agent;
    const description = agent.description || `The agent ${name}.`;
    const scheme = headers["x-forwarded-proto"] === "https" ? "https" : "http";
    const url = `${scheme}://${headers["host"] ?? "127.0.0.1"}${at}${rpcPath}`;
    return {
      name,
      description,
      version,
      supportedInterfaces: [{ url, protocolBinding: "JSONRPC", protocolVersion: "1.0", tenant: "" }],
      capabilities: { streaming: true, pushNotifications: false, extendedAgentCard: false, extensions: [] },
      defaultInputModes: ["text/plain"],
      defaultOutputModes: ["text/plain"],
      skills: [{ id: name, name, description, tags: ["agent"] }],
      securitySchemes: isGuarded ? { bearer: { httpAuthSecurityScheme: { scheme: "Bearer" } } } : {},
      securityRequirements: isGuarded ? [{ schemes: { bearer: { list: [] } } }] : [],
    };
  }

  /** `known`: if the message continues an interrupted task, the newest version before; otherwise 0. */
  async function start(
    params: Fields,
    isStream: boolean,
  ): Promise<{ session: string; running: Running; sent: Sent; known: number }> {
    const given = readSent(params);
    const sent = given.taskId === undefined ? given : await withResults(given, given.taskId);
    const session = sent.contextId ?? (await sessionForMessage(sessions, sent.messageId, undefined));
    const { items, results, messageId: call } = sent;
    const said = { message: items.length > 0 ? items : undefined, results: results.length > 0 ? results : undefined };
    // The run ignores the request's signal: after a disconnect, a client can read the task, or end it with CancelTask.
    const asked = { sessions, session, ...said, call, stream: isStream };
    const before = isStream ? await sessions.peek(session) : undefined;
    const known = before?.turn?.call === call ? (before?.version ?? 0) : 0;
    const running = runAgent(options, { ...asked, busy: "refuse" });
    return { session, running: detached(running, (after) => sessions.events(session, { after })), sent, known };
  }

  /** Reads the results in a message for a waiting task. Without results, its text is the result of the only open call. */
  async function withResults(sent: Sent, id: string): Promise<Sent> {
    const { turn, task } = await findTurn(id);
    if (sent.contextId !== undefined && sent.contextId !== task.contextId) {
      throw invalidOption(`the task ${id} is not in the context ${sent.contextId.slice(0, 100)}`);
    }
    const { contextId } = task;
    // A repeated message gets the recorded task, even if the task has ended.
    const open = turn.answeredBy(sent.messageId) ?? (await openCalls(contextId, turn.invocation));
    if (open.length === 0) {
      const why = "the task waits for no result; send the message with the `contextId` only, and it begins a new task";
      throw new A2aError("unsupported", why, "UNSUPPORTED_OPERATION");
    }
    if (sent.results.length > 0) return { ...sent, contextId };
    const [call_id, ...others] = open as [string, ...string[]];
    if (others.length > 0) {
      const why = `the task waits for ${open.length} results; send a data part for each: {"type":"function_call_output","call_id":"${call_id}","output":"…"}`;
      throw invalidOption(why);
    }
    const output = sent.items.map((item) => (isMessage(item) ? toText(item.content) : "")).join("");
    return { ...sent, contextId, items: [], results: [{ call_id, output }] };
  }

  /** Returns the ids of the calls that a turn waits for. Only the newest turn of a context can wait for calls. */
  async function openCalls(contextId: string, invocation: string): Promise<string[]> {
    const { turn } = await sessions.info(contextId);
    return turn?.invocation === invocation ? (turn.waiting ?? []) : [];
  }

  async function sendMessage({ id, params }: Rpc): Promise<Reply> {
    const { session, running, sent } = await start(params, false);
    let name: string | undefined;
    try {
      for await (const event of running) {
        name ??= await nameTask(session, event);
        if (sent.returnImmediately) break;
      }
    } catch (thrown) {
      if (name === undefined || !isCancelled(thrown)) throw thrown;
    }
    const task = await findTask(name ?? "");
    return result(id, { task: withHistory(task, sent.historyLength) }, session);
  }

  /** Returns the id of an event's task. */
  async function nameTask(session: string, event: RunEvent): Promise<string> {
    if (event.type === "invocation.began") return taskId(session, event.version);
    const began = await findBegan(sessions, session, event.invocation);
    return taskId(session, began?.turn.version ?? 0);
  }

  async function streamMessage({ id, params }: Rpc, signal: AbortSignal): Promise<Reply> {
    const { session, running, known } = await start(params, true);
    const family = createFamily(agent);
    let stream: ReturnType<typeof createTaskStream> | undefined;
    const frames = (sent: object[]): string => sent.map((each) => frame(id, each)).join("");
    const reply = await streamRun(running, signal, {
      async event(event) {
        // The pieces before the first event of a continued turn are left out: the log may already have their answer.
        if (event.type === "partial") return stream && isStreamed(family, event.path) ? frames(stream.add(event)) : "";
        // The first frame has the earlier events of a continued task.
        if (event.version <= known) return "";
        if (stream) return frames(stream.add(event));
        stream = createTaskStream(await turnBefore(session, event));
        return frames([stream.begin(), ...(event.type === "invocation.began" ? [] : stream.add(event))]);
      },
      done: ({ outcome }) => (outcome === "waiting" && stream ? frames(stream.wait()) : ""),
      async error(error) {
        if (!stream || !isCancelled(error)) return `data: ${JSON.stringify(errorBody(id, toError(error)))}\n\n`;
        const { id: name, contextId, status } = await findTask(stream.task.id);
        return frame(id, { statusUpdate: { taskId: name, contextId, status } });
      },
    });
    return { ...reply, about: { session } };
  }

  /** Returns a task as it was before an event: a new task, or the task that a repeated message or results continue. */
  async function turnBefore(session: string, event: CommittedEvent): Promise<TaskReader> {
    if (event.type === "invocation.began") return createTask(session, event);
    return (await findTurn(await nameTask(session, event), event.version - 1)).turn;
  }

  async function findTurn(id: string, upTo?: number): Promise<NonNullable<Awaited<ReturnType<typeof readTask>>>> {
    const found = await readTask(sessions, id, upTo);
    if (found) return found;
    throw new A2aError("taskNotFound", `there is no task ${id.slice(0, 100)}`, "TASK_NOT_FOUND", 404);
  }

  const findTask = async (id: string): Promise<Task> => (await findTurn(id)).task;

  async function listTasks({ id, params }: Rpc): Promise<Reply> {
    const session = text(params, "contextId");
    if (session === undefined) {
      throw new A2aError("unsupported", "ListTasks needs a `contextId`", "UNSUPPORTED_OPERATION");
    }
    const length = readHistoryLength(params);
    const { pageSize = 50 } = params;
    if (!Number.isInteger(pageSize) || (pageSize as number) < 0 || (pageSize as number) > mostTasks) {
      throw invalidOption(`\`pageSize\` must be a number from 1 to ${mostTasks}`);
    }
    const size = (pageSize as number) || 50;
    const from = Number(text(params, "pageToken") ?? 0);
    if (!Number.isInteger(from) || from < 0)
      throw invalidOption("`pageToken` must be the `nextPageToken` of an earlier page");
    const turns: ReturnType<typeof createTask>[] = [];
    for await (const event of sessions.events(session)) {
      for (const turn of turns) turn.add(event);
      if (event.type === "invocation.began") turns.push(createTask(session, event));
    }
    const state = text(params, "status");
    // A2A lists the newest tasks first.
    const tasks = turns
      .map(({ task }) => task)
      .toReversed()
      .filter(({ status }) => state === undefined || state === "TASK_STATE_UNSPECIFIED" || status.state === state);
    const page = tasks.slice(from, from + size).map((task) => withHistory(task, length));
    const shown = params["includeArtifacts"] === true ? page : page.map(({ artifacts: _artifacts, ...task }) => task);
    const next = from + size < tasks.length ? String(from + size) : "";
    return result(id, { tasks: shown, nextPageToken: next, pageSize: size, totalSize: tasks.length }, session);
  }

  async function cancelTask({ id, params }: Rpc): Promise<Reply> {
    const name = text(params, "id") ?? "";
    const before = await findTask(name);
    const { contextId } = before;
    const { turn: { invocation } = {} } = await sessions.info(contextId);
    const began = invocation === undefined ? undefined : await findBegan(sessions, contextId, invocation);
    const isOpen = taskId(contextId, began?.turn.version ?? 0) === name && !isTerminal(before);
    if (!isOpen || !(await sessions.cancel(contextId, { invocation }))) {
      throw new A2aError("notCancelable", `the task ${name} is not running`, "TASK_NOT_CANCELABLE", 409);
    }
    return result(id, await findTask(name), contextId);
  }

  /** Streams a task's updates from the log, because any server may run the task. */
  async function subscribe({ id, params }: Rpc, signal: AbortSignal): Promise<Reply> {
    const { turn, after } = await findTurn(text(params, "id") ?? "");
    const { contextId: session } = turn.task;
    if (isTerminal(turn.task)) {
      throw new A2aError("unsupported", "the task has ended; read it with GetTask", "UNSUPPORTED_OPERATION");
    }
    async function* told(): AsyncGenerator<string, void, undefined> {
      const stream = createTaskStream(turn);
      yield frame(id, stream.begin());
      for await (const event of followEvents(sessions, session, { after, signal })) {
        const updates = stream.add(event);
        yield* updates.map((update) => frame(id, update));
        if (isTerminal(turn.task) || (updates.length > 0 && isWaiting(turn.task))) return;
      }
    }
    return { ...streamReply(told()), about: { session } };
  }

  async function dispatch(rpc: Rpc, { signal }: Request): Promise<Reply> {
    switch (rpc.method) {
      case "SendMessage":
        return sendMessage(rpc);
      case "SendStreamingMessage":
        return streamMessage(rpc, signal);
      case "GetTask": {
        const task = await findTask(text(rpc.params, "id") ?? "");
        return result(rpc.id, withHistory(task, readHistoryLength(rpc.params)), task.contextId);
      }
      case "ListTasks":
        return listTasks(rpc);
      case "CancelTask":
        return cancelTask(rpc);
      case "SubscribeToTask":
        return subscribe(rpc, signal);
      case "GetExtendedAgentCard":
        throw new A2aError(
          "unsupported",
          "the agent has no extended card; read its agent card",
          "UNSUPPORTED_OPERATION",
        );
    }
    if (/PushNotificationConfigs?$/.test(rpc.method)) {
      throw noPush();
    }
    if (/^(?:message|tasks)\//.test(rpc.method)) {
      throw new A2aError("versionNotSupported", "A2A 0.3 is not supported; use 1.0", "VERSION_NOT_SUPPORTED");
    }
    const message = `the method ${rpc.method.slice(0, 100)} is not supported`;
    throw new A2aError("methodNotFound", message, "METHOD_NOT_FOUND", 404);
  }

  async function answer(request: Request): Promise<Reply> {
    const { method, path, headers, body } = request;
    if (path === cardPath) {
      if (method !== "GET") throw notAllowed(path, method, ["GET"]);
      return { status: 200, body: card(request) };
    }
    if (method !== "POST") throw notAllowed(path, method, ["POST"]);
    let id: Id = null;
    try {
      const { id: given } = Object(body) as Fields;
      if (typeof given === "string" || typeof given === "number") id = given;
      const asked = headers["a2a-version"] ?? "";
      if (asked !== "" && !/^1\.0(?:\.|$)/.test(asked)) {
        const message = `A2A ${asked.slice(0, 20)} is not supported; use 1.0`;
        throw new A2aError("versionNotSupported", message, "VERSION_NOT_SUPPORTED");
      }
      return await dispatch(readRpc(body), request);
    } catch (thrown) {
      if (thrown instanceof A2aError) return failed(id, errorObject(thrown.code, thrown.message, thrown.reason));
      if (!isHoldfastError(thrown)) throw thrown;
      return { ...failed(id, toError(thrown)), thrown };
    }
  }

  return {
    name: "a2a",
    handle: (request) => (isOurs(request.path) ? answer(request) : undefined),
    decorate(request, reply) {
      const { error } = Object(reply.body) as { error?: HoldfastError };
      if (request.path !== rpcPath || typeof error?.code !== "string") return reply;
      return { ...reply, body: errorBody(null, toError(error)) };
    },
  };
}

type Sent = ReturnType<typeof readSent>;

const frame = (id: Id, sent: object): string => `data: ${JSON.stringify(resultBody(id, sent))}\n\n`;

const result = (id: Id, body: object, session: string): Reply => ({
  status: 200,
  body: resultBody(id, body),
  about: { session },
});

/** Returns whether a run ended because its task was cancelled, by this server or another server. */
const isCancelled = (thrown: unknown): boolean =>
  isHoldfastError(thrown) && (thrown.code === "run_cancelled" || thrown.code === "turn_lost");

/** JSON-RPC errors have the status 200, because the request itself was understood. */
const failed = (id: Id, error: RpcError): Reply => ({ status: 200, body: errorBody(id, error) });

/** Limits a task's history to its newest messages. */
const withHistory = (task: Task, length: number | undefined): Task =>
  length === undefined ? task : { ...task, history: length === 0 ? [] : task.history.slice(-length) };
