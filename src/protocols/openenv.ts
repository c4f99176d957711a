// openEnvProtocol(): serves an environment to OpenEnv's clients, over HTTP and WebSockets.
import { ellipsis } from "../core/ellipsis.ts";
import { HoldfastError, invalidOption, isHoldfastError, unlessCoded } from "../core/errors.ts";
import { isObject, type Json } from "../core/json.ts";
import { notAllowed, type Channel, type Message, type Protocol, type Reply, type Request } from "../core/protocol.ts";
import type { TaskRow } from "../core/rollout.ts";
import type { CallOptions, Sessions } from "../core/sessions.ts";
import { createTaskFiles, type TaskFiles } from "../rollout/task-files.ts";
import type { Bindings } from "./http/mcp-binding.ts";
import { errorBody } from "./http/json-rpc.ts";
import { listTools, openApiOf, schemasOf } from "./openenv/documents.ts";
import { frameCode, observeCall, observeVerdict, toToolResult, type Observed } from "./openenv/observation.ts";
import { answerRpc, rpcFault, type RpcMethods } from "./openenv/rpc.ts";
import { createStepCount } from "./openenv/step-count.ts";
import { createCaller } from "./http/call.ts";
import { readCallId } from "./http/call-id.ts";
import { ok } from "./http/route.ts";
import { submit, submitNameIn } from "./http/submit.ts";
import { createTaskChoice, promptTexts } from "./http/task-choice.ts";
import { createTaskRoutes } from "./http/task-routes.ts";

export interface OpenEnvProtocolOptions {
  sessions: Sessions;
  /** Reads and issues session ids: `createBindings`. */
  bindings: Bindings;
  /** The environment's tasks, by split and index. Default: none. */
  tasks?: TaskFiles | undefined;
}

/** The path of the protocol, relative to the mount. Clients append their routes to it. */
const base = "/openenv";

/** The query parameters and the header in which agents send a session's id to /mcp, besides `params.session_id`. */
const idQueries = ["session_id", "rle_session_id"];
const idHeader = "x-client-rle-sandbox-session-id";

/**
 * Serves one environment's sessions under /openenv. A session's id is a signed token. Any process with the same store
 * accepts it, before and after a restart.
 *
 * @example
 * const protocol = openEnvProtocol({ sessions, bindings: createBindings(environment.name, tokens) });
 * const reply = await protocol.handle(request);
 */
export function openEnvProtocol({
  sessions,
  bindings,
  tasks = createTaskFiles(undefined),
}: OpenEnvProtocolOptions): Required<Omit<Protocol, "checksToken" | "servesUsers">> {
  const { environment } = sessions;
  const tools = listTools(environment);
  const schemas = schemasOf(tools);
  const submitName = submitNameIn(environment);
  const call = createCaller(sessions);
  const { choose } = createTaskChoice(tasks);
  const countSteps = createStepCount(sessions);
  const taskRoutes = createTaskRoutes(new Map([[environment.name.toLowerCase(), tasks]]));

  /** Returns the session of a signed id. Throws if the id is invalid. */
  function read(id: unknown): string {
    const session = typeof id === "string" ? bindings.readId(id) : undefined;
    if (session !== undefined) return session;
    const message =
      id === undefined || id === null
        ? "session_id is missing; openenv/session/create and reset return one"
        : `Unknown session_id: ${ellipsis(typeof id === "string" ? id : JSON.stringify(id), 100)}`;
    throw new HoldfastError("session_not_found", message);
  }

  async function reset(session: string, data: unknown, id?: string): Promise<Observed> {
    const { seed, episode_id: episodeId, ...fields } = fieldsOf(data);
    if (seed !== undefined && seed !== null && !(Number.isInteger(seed) && (seed as number) >= 0)) {
      throw invalidOption("`seed` must be a whole number of at least 0");
    }
    if (episodeId !== undefined && episodeId !== null && !(typeof episodeId === "string" && episodeId.length <= 255)) {
      throw invalidOption("`episode_id` must be a string of at most 255 characters");
    }
    const { task, labels, prompt, ...chosen } = await choose(fields);
    if (typeof episodeId === "string") labels["episode_id"] = episodeId;
    const randomSeed = typeof seed === "number" ? seed : chosen.randomSeed;
    // With a key, the seed is a separate commit, because only then can a repeat find it.
    const first = id === undefined ? { session, task, labels, randomSeed } : { session };
    const info = await sessions.open(first).catch(unlessCoded("session_exists"));
    const opened = id === undefined ? info : undefined;
    const options = { labels, ...(randomSeed !== undefined && { randomSeed }), ...(id !== undefined && { call: id }) };
    const { episode } = opened ?? (await sessions.seed(session, task, options));
    const observation = prompt.length === 0 ? {} : { prompt: promptTexts(prompt).join("\n\n"), messages: prompt };
    // Clients can keep the id and find the episode again after their connection broke.
    const metadata = { session_id: bindings.issueId(session), episode };
    return { observation, reward: null, done: false, metadata };
  }

  /** Acts in an episode. `session` is called only if the action needs a session. */
  async function step(session: () => string, action: unknown, options: CallOptions = {}): Promise<Observed> {
    const { type = "call_tool", tool_name: tool, arguments: input = {}, metadata, ...others } = fieldsOf(action ?? {});
    const given = readCallId(isObject(metadata) ? metadata["request_id"] : undefined, "metadata.request_id");
    if (type === "list_tools") return { observation: { tools }, reward: null, done: false };
    const id = options.call ?? given;
    const scored = (response: Json | undefined) => submit(sessions, session(), response, id !== undefined);
    if (type === "submit") return observeVerdict(undefined, await scored(others["response"]));
    if (type !== "call_tool") {
      throw invalidOption("the `type` of an action must be call_tool, list_tools or submit");
    }
    const [extra] = Object.keys(others);
    if (extra !== undefined) throw invalidOption(`an action has no field ${JSON.stringify(ellipsis(extra, 100))}`);
    if (typeof tool !== "string") throw invalidOption("`tool_name` must be the name of a tool");
    if (tool === submitName) return observeVerdict(tool, await scored(responseIn(input)));
    return observeCall(tool, await call(session(), tool, input, { ...options, ...(id !== undefined && { call: id }) }));
  }

  /** Describes an episode. Never returns the environment's state, because trainers may show the reply to a model. */
  async function stateOf(session: string): Promise<object> {
    const info = await sessions.peek(session);
    if (!info || info.episode === 0) return { episode_id: null, step_count: 0 };
    const { episode_id: named } = info.labels;
    const id = typeof named === "string" ? named : `${session}-${info.episode}`;
    return { episode_id: id, step_count: await countSteps(session) };
  }

  const methods: RpcMethods = {
    read,
    listTools: () => ({ tools }),
    create: () => ({ session_id: bindings.issueId(sessions.newSession()) }),
    close: async (session) => ({ session_id: bindings.issueId(session), closed: await sessions.close(session) }),
    async call(session, tool, input, id) {
      if (tool === submitName) {
        const { verdict } = await submit(sessions, session, responseIn(input as Json), id !== undefined);
        return toToolResult(verdict);
      }
      const answer = await call(session, tool, input, id === undefined ? {} : { call: id });
      if (answer.ok) return toToolResult(answer.output);
      throw new HoldfastError(answer.error.code, answer.error.message);
    },
  };

  /** Answers the messages of /ws. A client without an id gets a new session, which its message `close` ends. */
  function framesOf(id: string | null): Channel {
    return async function* (messages) {
      let session: string;
      try {
        session = id === null ? sessions.newSession() : read(id);
      } catch (thrown) {
        yield errorFrame(thrown);
        return;
      }
      for await (const message of messages) {
        if ((Object(message.body) as TaskRow)["type"] === "close") {
          if (id === null) await sessions.close(session);
          return;
        }
        message.session = session;
        yield await answerFrame(session, message);
      }
    };
  }

  async function answerFrame(session: string, message: Message): Promise<string> {
    if (message.fault) return errorFrame(message.fault);
    const failed = (thrown: HoldfastError): void => void (message.thrown = thrown);
    try {
      const { type, data, ...others } = fieldsOf(message.body);
      const [extra] = Object.keys(others);
      if (extra !== undefined) throw invalidOption(`a message has no field ${JSON.stringify(ellipsis(extra, 100))}`);
      const reply = (name: string, data: object): string => JSON.stringify({ type: name, data });
      if (type === "reset") return reply("observation", await reset(session, data ?? {}));
      if (type === "step") return reply("observation", await step(() => session, data));
      if (type === "state") return reply("state", await stateOf(session));
      if (type === "mcp") {
        return reply("mcp", await answerRpc(data, { session: bindings.issueId(session) }, methods, failed));
      }
      if (typeof type !== "string") throw invalidOption("a message must have a `type`");
      return reply("error", { message: `Unknown message type: ${ellipsis(type, 100)}`, code: "UNKNOWN_TYPE" });
    } catch (thrown) {
      message.thrown = thrown;
      return errorFrame(thrown);
    }
  }

  /** Answers the messages of a WebSocket that carries bare JSON-RPC. */
  function rpcOf(session: string | undefined): Channel {
    const given = { session };
    const answer = async (message: Message): Promise<string> => {
      const { body, fault } = message;
      const failed = (thrown: HoldfastError): void => void (message.thrown = thrown);
      return JSON.stringify(
        fault ? errorBody(undefined, rpcFault(fault)) : await answerRpc(body, given, methods, failed),
      );
    };
    return async function* (messages) {
      for await (const message of messages) yield await answer(message);
    };
  }

  const idIn = ({ query, headers }: Request): string | undefined =>
    idQueries.map((name) => query.get(name)).find((id) => id !== null) ?? headers[idHeader];

  const { name, description } = environment;
  const metadata = { name, description, version: "1.0.0", readme_content: null, author: null, documentation_url: null };
  const routes = new Map<string, (request: Request) => Reply | Promise<Reply>>([
    ["GET /health", () => ok({ status: "healthy" })],
    ["GET /metadata", () => ok(metadata)],
    ["GET /schema", () => ok(schemas)],
    ["GET /openapi.json", () => ok(openApiOf(environment, schemas))],
    [
      "GET /state",
      async ({ query }) => {
        const session = read(query.get("session_id"));
        return about(session, await stateOf(session));
      },
    ],
    [
      "POST /reset",
      async ({ query, body, headers }) => {
        const id = query.get("session_id");
        const session = id === null ? sessions.newSession() : read(id);
        return about(session, await reset(session, body ?? {}, headers["idempotency-key"]));
      },
    ],
    [
      "POST /step",
      async ({ query, body, headers }) => {
        const { action, timeout_s: seconds, request_id: given } = fieldsOf(body ?? {});
        if (!isObject(action))
          throw invalidOption('the body must have an `action`, as in {"action":{"type":"list_tools"}}');
        const options: CallOptions = {};
        const key = headers["idempotency-key"] ?? readCallId(given, "request_id");
        if (key !== undefined) options.call = key;
        if (seconds !== undefined && seconds !== null) {
          if (!(typeof seconds === "number" && seconds > 0)) {
            throw invalidOption("`timeout_s` must be a number of seconds above 0");
          }
          options.signal = AbortSignal.timeout(Math.min(Math.ceil(seconds * 1000), 2 ** 31 - 1));
        }
        const id = query.get("session_id");
        const session = id === null ? null : read(id);
        return about(session, await step(() => session ?? read(null), action, options));
      },
    ],
    [
      "POST /mcp",
      async (request) => {
        const reply = ok(undefined);
        const given = { session: idIn(request), call: request.headers["idempotency-key"] };
        reply.body = await answerRpc(request.body, given, methods, (thrown) => (reply.thrown = thrown));
        return reply;
      },
    ],
  ]);

  async function handle(request: Request): Promise<Reply> {
    const { method, body } = request;
    const path = request.path.slice(base.length);
    const route = routes.get(`${method} ${path}`);
    const reply = route ? await route(request) : await taskRoutes({ method, path, body });
    if (reply) return reply;
    const allow = ["GET", "POST"].filter((other) => routes.has(`${other} ${path}`));
    throw allow.length > 0 ? notAllowed(path, method, allow) : unknownRoute(path);
  }

  return {
    name: "openenv",
    handle(request) {
      return request.path.startsWith(`${base}/`) ? handle(request) : undefined;
    },
    connect(request) {
      if (!request.path.startsWith(`${base}/`)) return undefined;
      const path = request.path.slice(base.length);
      if (path === "/ws") return framesOf(request.query.get("session_id"));
      return path === "/mcp" ? rpcOf(idIn(request)) : undefined;
    },
    decorate(request, reply) {
      if (!request.path.startsWith(`${base}/`) || !isHoldfastError(reply.thrown)) return reply;
      const { thrown } = reply;
      if (request.path === `${base}/mcp` && thrown.code === "invalid_json") {
        return { ...reply, status: 200, body: errorBody(undefined, rpcFault(thrown)) };
      }
      // OpenEnv's clients print `detail`.
      return { ...reply, body: { detail: thrown.message, ...thrown.toJSON() } };
    },
  };
}

const unknownRoute = (path: string): HoldfastError =>
  new HoldfastError(
    "not_found",
    `no route matches ${base}${ellipsis(path, 100)}; ${base}/openapi.json lists the routes`,
  );

function about(session: string | null, body: object): Reply {
  return session === null ? ok(body) : { ...ok(body), about: { session } };
}

function fieldsOf(value: unknown): TaskRow {
  if (isObject(value)) return value as TaskRow;
  throw invalidOption("a message and its `data` must be JSON objects");
}

const responseIn = (input: Json): Json | undefined => (isObject(input) ? input["response"] : undefined);

function errorFrame(thrown: unknown): string {
  if (!isHoldfastError(thrown)) throw thrown;
  const { message, code } = thrown;
  return JSON.stringify({ type: "error", data: { message, code: frameCode(thrown), holdfast_code: code } });
}
