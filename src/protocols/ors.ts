// orsProtocol(): serves environments to clients of the Open Reward Standard.
import { whenDecided } from "../agent/episodes.ts";
import { ellipsis } from "../core/ellipsis.ts";
import { HoldfastError, invalidOption, isHoldfastError, unlessCoded } from "../core/errors.ts";
import { equalJson, isObject, type Json } from "../core/json.ts";
import { notAllowed, type DecoratingProtocol, type Reply, type Request } from "../core/protocol.ts";
import type { TaskRow } from "../core/rollout.ts";
import type { Sessions } from "../core/sessions.ts";
import type { TaskFiles } from "../rollout/task-files.ts";
import { checkTask } from "../session/seed.ts";
import { createCaller } from "./http/call.ts";
import { readCallId } from "./http/call-id.ts";
import type { Bindings } from "./http/mcp-binding.ts";
import { ok } from "./http/route.ts";
import { submit, submitNameIn, submitTool } from "./http/submit.ts";
import { createTaskChoice, promptTexts } from "./http/task-choice.ts";
import { createTaskRoutes } from "./http/task-routes.ts";
import { listTools } from "./http/tool-list.ts";
import { event, valueEvents } from "./ors/events.ts";

/** An environment that the protocol serves. */
export interface OrsEnvironment {
  sessions: Sessions;
  /** Reads and issues session ids. Made by `createBindings`. */
  bindings: Bindings;
  /** The environment's tasks, by split and index. */
  tasks: TaskFiles;
}

export interface OrsProtocolOptions {
  /** The first environment also answers requests that name no environment. */
  environments: readonly OrsEnvironment[];
  /** The server's version, for its clients. */
  version: string;
}

/** The path of the protocol, relative to the mount. Clients append their routes to it. */
const base = "/ors";

/** The output of a call. ORS's clients expect all four fields. */
interface Output {
  blocks: object[];
  metadata: Json;
  reward: number | null;
  finished: boolean;
}

type Handler = (request: Request) => Reply | Promise<Reply>;

/**
 * Serves environments under /ors. A session's id is a signed token, and a call's `task_id` is its call id. So a client
 * can repeat a call on any process with the same store, before and after a restart, and it is applied once.
 *
 * @example
 * const protocol = orsProtocol({ environments: [{ sessions, bindings, tasks }], version: "1.0.0" });
 * const reply = await protocol.handle(request);
 */
export function orsProtocol({ environments, version }: OrsProtocolOptions): DecoratingProtocol {
  const served = new Map(environments.map((each) => [each.sessions.environment.name.toLowerCase(), serveOne(each)]));
  const [first] = served.values();
  const taskRoutes = createTaskRoutes(new Map(environments.map((each) => [nameOf(each), each.tasks])));

  const idIn = ({ headers }: Request): string => headers["x-session-id"] ?? "";

  /** Finds an environment by its name. Without a name, returns the first environment. */
  function named(name: unknown): ReturnType<typeof serveOne> {
    const found = name === undefined || name === null ? first : served.get(toText(name).toLowerCase());
    if (found) return found;
    const message = `there is no environment "${ellipsis(toText(name), 100)}"; there are: ${[...served.keys()].join(", ")}`;
    throw new HoldfastError("not_found", message);
  }

  /** Ends a session. Its id does not name an environment, so every environment is asked to close the session. */
  async function end(request: Request): Promise<Reply> {
    const id = idIn(request);
    for (const { read, sessions } of served.values()) await sessions.close(read(request));
    return ok({ sid: id });
  }

  /**
   * Answers while an episode is open. Pings do not keep the episode alive. All replicas read the time of the last use
   * from the log, and an event for each ping would make the log long.
   */
  async function ping(request: Request): Promise<Reply> {
    for (const { read, sessions } of served.values()) {
      const info = await sessions.peek(read(request));
      if (info && info.ended === undefined) return ok({ status: "ok" });
    }
    const message = `the session has ended or was not created; POST ${base}/create_session returns a new id`;
    throw new HoldfastError("session_not_found", message);
  }

  const routes = new Map<string, Handler>([
    ["GET /health", () => ok({ status: "ok" })],
    ["GET /version", () => ok({ version })],
    [
      "POST /create_session",
      () => {
        const id = first?.newId() ?? "";
        const headers = { "content-type": "text/event-stream", "cache-control": "no-store" };
        return { status: 200, headers, text: event("task_id", id) + event("end", JSON.stringify({ sid: id })) };
      },
    ],
    ["POST /create", (request) => named((Object(request.body) as TaskRow)["env_name"]).create(request)],
    ["POST /ping", ping],
    ["POST /delete", end],
    ["POST /delete_session", end],
  ]);

  /** Finds the handler of a path such as /counter/call, or /call for the first environment. */
  function find(method: string, path: string): Handler | undefined {
    const own = routes.get(`${method} ${path}`);
    if (own) return own;
    const [, name, route = ""] = /^(?:\/([^/]+))?(\/[^/]+)$/.exec(path) ?? [];
    return name === undefined ? first?.routes.get(`${method} ${route}`) : named(name).routes.get(`${method} ${route}`);
  }

  async function handle(request: Request): Promise<Reply> {
    const { method, body } = request;
    const path = request.path.slice(base.length);
    // For clients that name no environment, these paths serve the tasks of the first environment.
    const isBare = /^\/(?:splits|tasks|num_tasks|task|task_range)$/.test(path);
    const [firstName = ""] = served.keys();
    const reply =
      (await taskRoutes({ method, path: isBare ? `/${firstName}${path}` : path, body })) ??
      (await find(method, path)?.(request));
    if (reply) return reply;
    const allow = ["GET", "POST"].filter((other) => find(other, path));
    if (allow.length > 0) throw notAllowed(path, method, allow);
    throw new HoldfastError("not_found", `no route matches ${base}${ellipsis(path, 100)}`);
  }

  return {
    name: "ors",
    handle(request) {
      return request.path.startsWith(`${base}/`) ? handle(request) : undefined;
    },
    decorate(request, reply) {
      if (!request.path.startsWith(`${base}/`) || !isHoldfastError(reply.thrown)) return reply;
      // Clients print `detail`, and expect status 400 for a session that already exists.
      const status = reply.thrown.code === "session_exists" ? 400 : reply.status;
      return { ...reply, status, body: { detail: reply.thrown.message, ...reply.thrown.toJSON() } };
    },
  };
}

function serveOne({ sessions, bindings, tasks }: OrsEnvironment) {
  const { environment } = sessions;
  const { choose, promptOf } = createTaskChoice(tasks);
  const callTool = createCaller(sessions);
  const submitName = submitNameIn(environment);
  const tools = [
    ...listTools(environment).map(({ name, description, inputSchema }) => ({
      name,
      description,
      input_schema: inputSchema,
    })),
    { name: submitName, description: submitTool.description, input_schema: submitTool.input },
  ];

  /** Returns the session of the signed id in a request. Throws if the id is missing or invalid. */
  function read({ headers }: Request): string {
    const id = headers["x-session-id"];
    const session = id === undefined ? undefined : bindings.readId(id);
    if (session !== undefined) return session;
    const message = id === undefined ? "the header X-Session-ID is missing" : "the X-Session-ID is unknown";
    throw new HoldfastError("session_not_found", `${message}; POST ${base}/create_session returns one`);
  }

  async function create(request: Request): Promise<Reply> {
    const session = read(request);
    const { task_spec: spec, split, index } = (isObject(request.body) ? request.body : {}) as TaskRow;
    const fields = spec ?? { ...(split !== undefined && { split }), ...(index !== undefined && { index }) };
    if (!isObject(fields)) throw invalidOption("`task_spec` must be an object");
    const { task, labels, randomSeed } = await choose(fields as TaskRow);
    const opened = await sessions.open({ session, task, labels, randomSeed }).catch(unlessCoded("session_exists"));
    if (!opened && !(await isRepeat(session, task))) {
      throw new HoldfastError("session_exists", `session ${session} was created before, with another task`);
    }
    return { ...ok({ sid: request.headers["x-session-id"] }), about: { session } };
  }

  /** Returns whether a session was created with this task. If so, the client's request is a repeat. */
  async function isRepeat(session: string, task: TaskRow): Promise<boolean> {
    const { episode, task: known } = await sessions.info(session);
    return episode === 1 && equalJson(known ?? null, await checkTask(environment, task));
  }

  async function prompt(request: Request): Promise<Reply> {
    const { labels } = await sessions.info(read(request));
    const texts = promptTexts(await promptOf(labels));
    return ok((texts.length > 0 ? texts : [environment.description]).map(textBlock));
  }

  function call(request: Request): Reply {
    const session = read(request);
    const { name, input, task_id: given } = (isObject(request.body) ? request.body : {}) as TaskRow;
    if (typeof name !== "string") throw invalidOption("`name` must be the name of a tool");
    // The server makes these ids, so a client that sends one repeats a call.
    const repeated = readCallId(given, "task_id");
    const id = repeated ?? sessions.newSession();
    const reply: Reply = { status: 200, about: { session, call: id }, isRun: true };
    const attempt = (): Promise<object> =>
      resultOf(session, id, name, input ?? {}, repeated !== undefined).catch((thrown: unknown) => {
        // Another process runs the call, so a server that stops does not wait for it.
        if (isHoldfastError(thrown) && thrown.code === "call_in_progress") delete reply.isRun;
        throw thrown;
      });
    const { signal } = request;
    return Object.assign(reply, { stream: callEvents(id, signal, () => whenDecided(signal, attempt)) });
  }

  /**
   * Sends the call's id first, so that a client that loses the rest can repeat the call. If it is not known whether the
   * call was applied, the stream breaks off, and clients repeat the call with its id.
   */
  async function* callEvents(
    id: string,
    signal: AbortSignal,
    result: () => Promise<object>,
  ): AsyncGenerator<string, void, undefined> {
    yield event("task_id", id);
    // Waits, so that the id is sent first: the server sends all events of one turn of the event loop together.
    await new Promise(process.nextTick);
    try {
      yield valueEvents(await result());
    } catch (thrown) {
      if (signal.aborted) return;
      if (!isHoldfastError(thrown) || isTransient(thrown)) throw thrown;
      yield event("error", thrown.message.replaceAll(/\s+/g, " "));
    }
  }

  async function resultOf(session: string, id: string, tool: string, input: Json, isRepeat: boolean): Promise<object> {
    if (tool === submitName) {
      const response = isObject(input) ? input["response"] : undefined;
      const { reward, verdict } = await submit(sessions, session, response, isRepeat);
      return { ok: true, output: outputOf(verdict, { reward, finished: true }) };
    }
    const answer = await callTool(session, tool, input, { call: id });
    if (!answer.ok) return { ok: false, error: answer.error.message };
    return { ok: true, output: outputOf(answer.output, { reward: null, finished: false }) };
  }

  return {
    sessions,
    read,
    create,
    newId: (): string => bindings.issueId(sessions.newSession()),
    routes: new Map<string, Handler>([
      ["GET /tools", () => ok({ tools })],
      ["GET /task_tools", (request) => (read(request), ok({ tools }))],
      ["GET /prompt", prompt],
      ["POST /call", call],
    ]),
  };
}

const nameOf = ({ sessions }: OrsEnvironment): string => sessions.environment.name.toLowerCase();

/** Returns whether a repeat of the call may have a different result. */
const isTransient = ({ code, status }: HoldfastError): boolean =>
  (status >= 500 && code !== "verify_failed") || status === 429;

const textBlock = (text: string): object => ({ type: "text", text, detail: null });

function outputOf(output: Json, ending: Pick<Output, "reward" | "finished">): Output {
  const text = typeof output === "string" ? output : JSON.stringify(output ?? null);
  return { blocks: [textBlock(text)], metadata: null, ...ending };
}

const toText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));
