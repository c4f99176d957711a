// mcpTools(): gives an agent the tools of an MCP server, over HTTP or as a child process.
import type { AgentContext, Toolset } from "../core/agent.ts";
import { dropOldest } from "../core/drop-oldest.ts";
import { HoldfastError, invalidOption, isHoldfastError } from "../core/errors.ts";
import { copyJson, isObject, type Json } from "../core/json.ts";
import type { ToolSchema } from "../core/model.ts";
import { refuseUnknown } from "../core/suggest.ts";
import { isTimeout, timeoutRange } from "../core/timeout.ts";
import { unlessAborted } from "../io/abort.ts";
import { derivedId } from "./episodes.ts";
import { createHttpServer } from "./mcp/http.ts";
import { createProcessServer } from "./mcp/process.ts";
import { resultOf, type Greeting, type RpcCall } from "./mcp/rpc.ts";

interface AnyMcpOptions {
  /** Milliseconds within which a call must be answered. Default: ten minutes. */
  timeout?: number | undefined;
  /**
   * "external", the default: an interrupted call is never sent again, and the model reads `outcome_unknown`. "once": an
   * interrupted call is sent again. This requires a server that applies each `_meta["dev.holdfast/call"]` only once, as
   * Holdfast's servers do.
   */
  effects?: "external" | "once" | undefined;
}

export type McpToolsOptions = AnyMcpOptions &
  (
    | {
        url: string;
        /** Headers to send with every request, such as the headers in the `mcp` field that `seed_session` returns. */
        headers?: { [name: string]: string } | undefined;
      }
    | {
        command: string;
        args?: readonly string[] | undefined;
        /** Environment variables for the server, in addition to variables of the user and system, such as `PATH`. */
        env?: { [name: string]: string } | undefined;
        cwd?: string | undefined;
      }
  );

/** The tools of an MCP server. */
export interface McpTools extends Toolset {
  /** Ends the server's child process, if it has one. */
  close(): Promise<void>;
}

const defaultTimeout = 600_000;
/** Milliseconds allowed to initialize a connection, or to list the tools. */
const quick = 60_000;
/** Maximum number of MCP sessions kept in memory until they are stored in their conversation's state. */
const mostGreetings = 10_000;
/** Maximum number of pages in a list of tools. */
const mostPages = 100;

/**
 * Returns the tools of an MCP server, whether it uses the older or the stateless protocol. Over HTTP, each
 * conversation, and each fork, has its own session on the server. The session's id is stored in the agent's state under
 * `mcp:` and a digest of the URL, so that the session continues after a crash. If the server has lost the session, a
 * new one is initialized. A child process is shared by all conversations, and is restarted after it exits.
 *
 * @example
 * const agent = defineAgent({ name: "player", model, toolsets: [mcpTools({ url: "http://localhost:8080/mcp" })] });
 *
 * @example
 * const files = mcpTools({ command: "npx", args: ["-y", "@modelcontextprotocol/server-filesystem", "."] });
 */
export function mcpTools(options: McpToolsOptions): McpTools {
  const { timeout = defaultTimeout, effects = "external" } = options;
  const own = "url" in options ? { url: true, headers: true } : { command: true, args: true, env: true, cwd: true };
  refuseUnknown("mcpTools", options, { ...own, timeout, effects }, invalidOption);
  if (!isTimeout(timeout)) throw invalidOption(`the timeout of an MCP server must be ${timeoutRange}`);
  const isHttp = "url" in options;
  const server = isHttp ? createHttpServer(options.url, options.headers ?? {}) : createProcessServer(options);
  // A URL can hold secrets, so the key has only its digest.
  const key = isHttp ? `mcp:${derivedId(options.url)}` : "";
  /** Initialized sessions that are not in a conversation's state yet, by conversation. A child process has only one. */
  const greetings = new Map<string, Promise<Greeting>>();

  /** Initializes a session once for all calls that need it. If one of them is cancelled, the others continue to wait. */
  async function greet(place: string, signal: AbortSignal): Promise<Greeting> {
    signal.throwIfAborted();
    const greeting = greetings.get(place) ?? server.greet({ timeout: quick, isRepeatable: true });
    if (!greetings.has(place)) {
      greetings.set(place, greeting);
      dropOldest(greetings, mostGreetings);
      greeting.catch(() => forget(place, greeting));
    }
    return unlessAborted(signal, greeting, () => signal.reason);
  }

  /** Removes a session, unless another call has already replaced it. */
  function forget(place: string, greeting: Promise<Greeting> | undefined): void {
    if (greetings.get(place) === greeting) greetings.delete(place);
  }

  /**
   * Sends a request. If the server has lost the session, initializes a new one and sends the request again. This is
   * safe, because the server has not processed the first request.
   */
  async function ask(place: string, stored: Greeting | undefined, call: RpcCall & { signal: AbortSignal }) {
    let greeting = stored ?? (await greet(place, call.signal));
    let result = await request(greeting, call);
    if (!result) {
      // Another call may already have initialized a new session.
      const latest = greetings.get(place);
      const known = await latest?.catch(() => undefined);
      const isStale = known === greeting || (known?.session !== undefined && known.session === greeting.session);
      if (isStale) forget(place, latest);
      greeting = await greet(place, call.signal);
      result = await request(greeting, call);
    }
    if (!result)
      throw new HoldfastError(
        "server_failed",
        `the MCP server ${server.name} does not recognise a session that it has just opened`,
      );
    return { result, greeting };
  }

  /** Sends a request in a session. Returns undefined if the server has lost the session. */
  async function request(greeting: Greeting, call: RpcCall) {
    try {
      const reply = await server.request(greeting, call);
      return reply && resultOf(server.name, reply, call.method);
    } catch (thrown) {
      throw call.isRepeatable ? thrown : orUnknown(thrown);
    }
  }

  async function list(signal: AbortSignal): Promise<ToolSchema[]> {
    const tools = new Map<string, ToolSchema>();
    const cursors = new Set<unknown>();
    let cursor: unknown;
    for (let page = 0; page < mostPages; page++) {
      const params = typeof cursor === "string" ? { cursor } : {};
      const call = { method: "tools/list", params, timeout: quick, signal, isRepeatable: true };
      const { result } = await ask("", undefined, call);
      for (const tool of Array.isArray(result["tools"]) ? (result["tools"] as unknown[]) : []) {
        if (!isObject(tool) || typeof tool["name"] !== "string") continue;
        if (!tools.has(tool["name"])) tools.set(tool["name"], toSchema(tool as { name: string }));
      }
      cursor = result["nextCursor"];
      // A server that repeats a cursor repeats its pages.
      if (typeof cursor !== "string" || cursors.has(cursor)) break;
      cursors.add(cursor);
    }
    return [...tools.values()];
  }

  return {
    ...(effects === "external" && { effects }),
    list: ({ signal }) => list(signal),
    async call(context, { tool, input, once }) {
      const place = isHttp ? `${context.session} ${context.invocation}` : "";
      const stored = isHttp ? storedGreeting(context) : undefined;
      const params = { name: tool, arguments: input, _meta: { "dev.holdfast/call": `${context.session}.${once}` } };
      const { signal } = context;
      const call = { method: "tools/call", params, timeout, signal, isRepeatable: effects === "once" };
      const { result, greeting } = await ask(place, stored, call);
      if (isHttp) remember(context, greeting);
      return toOutput(result);
    },
    close: () => server.close(),
  };

  /** Stores the MCP session in the agent's state. Uses `update`, because concurrent calls all set the same key. */
  function remember(context: AgentContext, greeting: Greeting): void {
    context.update(key, () => ({ ...greeting, conversation: context.session }));
  }

  /** Reads the MCP session from the agent's state. A fork copies the state, but must not use its parent's session. */
  function storedGreeting(context: AgentContext): Greeting | undefined {
    const { conversation, ...greeting } = Object(context.state[key]) as Greeting & { conversation?: string };
    return conversation === context.session ? greeting : undefined;
  }
}

/** If the server may have received the call, returns an error that says that the call may have taken effect. */
function orUnknown(thrown: unknown): unknown {
  if (!isHoldfastError(thrown) || thrown.detail["isSent"] !== true) return thrown;
  const message = `${thrown.message}; the call may or may not have taken effect`;
  return new HoldfastError("outcome_unknown", message, { cause: thrown });
}

function toSchema(tool: { name: string; description?: unknown; inputSchema?: unknown }): ToolSchema {
  const { name, description, inputSchema } = tool;
  const parameters = isObject(inputSchema) ? (copyJson(inputSchema, "inputSchema", "drop") as object) : {};
  return {
    type: "function",
    name,
    description: typeof description === "string" ? description : "",
    parameters: { type: "object", properties: {}, ...parameters },
  };
}

/** Returns a call's output: its structured content, its text, or all its parts. A failed call throws its text. */
function toOutput({ content, structuredContent, isError }: { [key: string]: unknown }): Json {
  const parts = Array.isArray(content) ? (content as { type?: unknown; text?: unknown }[]) : [];
  const isText = parts.every(({ type, text }) => type === "text" && typeof text === "string");
  const text = parts.map((part) => String(part.text)).join("\n");
  if (isError === true) throw new HoldfastError("tool_failed", isText && text !== "" ? text : "the tool failed");
  // Some servers write `null` for a missing field.
  if (structuredContent !== undefined && structuredContent !== null)
    return copyJson(structuredContent, "structuredContent", "drop");
  return isText ? text : copyJson(parts, "content", "drop");
}
