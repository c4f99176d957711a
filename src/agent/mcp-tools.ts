// mcpTools(): tools for an agent from an MCP server, over HTTP or as a child process.
import type { AgentContext, Toolset } from "../core/agent.ts";
import { HoldfastError, invalidOption, isHoldfastError } from "../core/errors.ts";
import { copyJson, isObject, type Json } from "../core/json.ts";
import type { ToolSchema } from "../core/model.ts";
import { isTimeout, timeoutRange } from "../core/timeout.ts";
import { createHttpServer } from "./mcp/http.ts";
import { createProcessServer } from "./mcp/process.ts";
import { resultOf, type Greeting, type RpcCall } from "./mcp/rpc.ts";

interface AnyMcpOptions {
  /** Milliseconds until a call must be answered. Default: ten minutes. */
  timeout?: number | undefined;
  /**
   * "external", the default: a call that was interrupted is never sent again, and the model reads `outcome_unknown`. "once": the
   * server applies a call once by `_meta["dev.holdfast/call"]`, as Holdfast's do, so an interrupted call is sent again.
   */
  effects?: "external" | "once" | undefined;
}

export type McpToolsOptions = AnyMcpOptions &
  (
    | {
        url: string;
        /** Sent with every request, such as those of a session's `mcp`. */
        headers?: { [name: string]: string } | undefined;
      }
    | {
        command: string;
        args?: readonly string[] | undefined;
        /** Added to the environment variables of this process. */
        env?: { [name: string]: string } | undefined;
        cwd?: string | undefined;
      }
  );

/** Tools of an MCP server. */
export interface McpTools extends Toolset {
  /** Ends the child process of the server, if it has one. */
  close(): Promise<void>;
}

const defaultTimeout = 600_000;
/** Milliseconds to greet a server or to list its tools. */
const quick = 60_000;
/** Maximum number of sessions kept in memory until they are in the state of their conversation. */
const mostGreetings = 10_000;
/** Maximum number of pages of a list of tools. */
const mostPages = 100;

/**
 * Returns the tools of an MCP server of either era. Over HTTP each conversation has a session of its own on the server: its id is
 * in the agent's state under `mcp:URL`, so that it continues after a crash. A server that has forgotten it is greeted again. A child
 * process is shared by all conversations, and is started again after it exits.
 *
 * @example
 * const agent = defineAgent({ name: "player", model, toolsets: [mcpTools({ url: "http://localhost:8080/mcp" })] });
 *
 * @example
 * const files = mcpTools({ command: "npx", args: ["-y", "@modelcontextprotocol/server-filesystem", "."] });
 */
export function mcpTools(options: McpToolsOptions): McpTools {
  const { timeout = defaultTimeout, effects = "external" } = options;
  if (!isTimeout(timeout)) throw invalidOption(`the timeout of an MCP server must be ${timeoutRange}`);
  const isHttp = "url" in options;
  const server = isHttp ? createHttpServer(options.url, options.headers ?? {}) : createProcessServer(options);
  const key = isHttp ? `mcp:${options.url}` : `mcp:${options.command}`;
  /** Greetings that are not in the state of a conversation yet, by conversation. A process has one. */
  const greetings = new Map<string, Promise<Greeting>>();

  function greet(place: string, signal: AbortSignal): Promise<Greeting> {
    const known = greetings.get(place);
    if (known) return known;
    const greeting = server.greet({ timeout: quick, signal, isRepeatable: true });
    greetings.set(place, greeting);
    const [oldest] = greetings.keys();
    if (greetings.size > mostGreetings && oldest !== undefined) greetings.delete(oldest);
    greeting.catch(() => greetings.delete(place));
    return greeting;
  }

  /** Sends a request. If the server has forgotten its client, greets it again and repeats the request, which it has not seen. */
  async function ask(place: string, stored: Greeting | undefined, call: RpcCall & { signal: AbortSignal }) {
    let greeting = stored ?? (await greet(place, call.signal));
    let reply = await server.request(greeting, call);
    if (!reply) {
      // Another call may have greeted it again.
      const known = await greetings.get(place)?.catch(() => undefined);
      const isStale = known === greeting || (known?.session !== undefined && known.session === greeting.session);
      if (isStale) greetings.delete(place);
      greeting = await greet(place, call.signal);
      reply = await server.request(greeting, call);
    }
    if (!reply) throw new HoldfastError("server_failed", `the MCP server ${server.name} does not keep its session`);
    return { result: resultOf(server.name, reply), greeting };
  }

  async function list(signal: AbortSignal): Promise<ToolSchema[]> {
    const tools: ToolSchema[] = [];
    let cursor: unknown;
    for (let page = 0; page < mostPages; page++) {
      const params = typeof cursor === "string" ? { cursor } : {};
      const call = { method: "tools/list", params, timeout: quick, signal, isRepeatable: true };
      const { result } = await ask("", undefined, call);
      for (const tool of Array.isArray(result["tools"]) ? (result["tools"] as unknown[]) : []) {
        if (isObject(tool) && typeof tool["name"] === "string") tools.push(toSchema(tool as { name: string }));
      }
      cursor = result["nextCursor"];
      if (typeof cursor !== "string") break;
    }
    return tools;
  }

  return {
    ...(effects === "external" && { effects }),
    list: ({ signal }) => list(signal),
    async call(context, { tool, input, once }) {
      const place = isHttp ? `${context.session} ${context.invocation}` : "";
      const stored = isHttp ? (context.state[key] as Greeting | undefined) : undefined;
      const params = { name: tool, arguments: input, _meta: { "dev.holdfast/call": `${context.session}.${once}` } };
      const { signal } = context;
      const call = { method: "tools/call", params, timeout, signal, isRepeatable: effects === "once" };
      const asked = ask(place, stored && { ...stored }, call);
      const { result, greeting } = await (effects === "external" ? asked.catch(orUnknown) : asked);
      if (isHttp) remember(context, greeting);
      return toOutput(result);
    },
    close: () => server.close(),
  };

  /** Stores the session in the conversation. An update, because all calls of one answer set it. */
  function remember(context: AgentContext, greeting: Greeting): void {
    context.update(key, () => ({ ...greeting }));
  }
}

/** Says that a call may have taken effect, if its answer was lost. */
function orUnknown(thrown: unknown): never {
  if (!isHoldfastError(thrown) || thrown.detail["isSent"] !== true) throw thrown;
  const message = `${thrown.message}; the call may or may not have taken effect`;
  throw new HoldfastError("outcome_unknown", message, { cause: thrown });
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

/** Returns the output of a call: structured content, one text, or all contents. Throws the text of a failed call. */
function toOutput({ content, structuredContent, isError }: { [key: string]: unknown }): Json {
  const parts = Array.isArray(content) ? (content as { type?: unknown; text?: unknown }[]) : [];
  const isText = parts.every(({ type, text }) => type === "text" && typeof text === "string");
  const text = parts.map((part) => String(part.text)).join("\n");
  if (isError === true) throw new HoldfastError("tool_failed", isText && text !== "" ? text : "the tool failed");
  if (structuredContent !== undefined) return copyJson(structuredContent, "structuredContent", "drop");
  return isText ? text : copyJson(parts, "content", "drop");
}
