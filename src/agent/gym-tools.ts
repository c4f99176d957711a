// gymTools(): the tools of an environment that is served over the gym protocol, by Holdfast or by others, for an agent.
import type { AgentContext, Toolset } from "../core/agent.ts";
import { errorTable, HoldfastError, messageOf, type ErrorCode } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { ToolSchema } from "../core/model.ts";
import { derivedId, whenDecided } from "./episodes.ts";

export interface GymToolsOptions {
  /** What the model can call. By default the server is asked, by `GET /v1/environment`, which only Holdfast's answer. */
  tools?: ToolSchema[];
  /** The row that the session is seeded with, at the first call. By default what is under `task` in the agent's state. */
  task?: (context: AgentContext) => unknown;
}

type Cookies = { [name: string]: string };

/** So many conversations whose cookies are not in their state yet are remembered. */
const mostJars = 10_000;

/**
 * The tools of a resources server. At the first call of a conversation a session is seeded; its cookies are in the agent's
 * state under `gym:URL`, and whoever has them has the session. The calls of a conversation are sent one after the other.
 *
 * Every call has an `Idempotency-Key`, so that Holdfast's server applies it once, also where the run was cut short and
 * goes on; other servers may not know it. A crash before the first results were committed leaves a session behind on the
 * server, and another one is seeded. A rewind of the conversation does not rewind the server.
 *
 * @example
 * const agent = defineAgent({ name: "player", model, toolsets: [gymTools("http://localhost:8080")] });
 */
export function gymTools(url: string, options: GymToolsOptions = {}): Toolset {
  const { tools, task: taskOf = ({ state }) => state["task"] as unknown } = options;
  const root = rootOf(url);
  const key = `gym:${root}`;
  let asked: Promise<ToolSchema[]> | undefined;
  /** By conversation and invocation: what is not in the state yet, because no result was committed, or the call failed. */
  const jars = new Map<string, Cookies>();
  /** The last call of each conversation that has one under way. */
  const last = new Map<string, Promise<unknown>>();

  /** In the order of asking: servers of this protocol need not bear calls of one session side by side. */
  async function inTurn<T>(session: string, run: () => Promise<T>): Promise<T> {
    const before = last.get(session);
    const turn = (async () => {
      await before?.catch(() => undefined);
      return run();
    })();
    last.set(session, turn);
    try {
      return await turn;
    } finally {
      if (last.get(session) === turn) last.delete(session);
    }
  }

  async function send(path: string, { signal, ...init }: RequestInit): Promise<{ response: Response; text: string }> {
    try {
      const response = await fetch(root + path, { ...init, redirect: "manual", signal: signal ?? null });
      return { response, text: await response.text() };
    } catch (thrown) {
      if (signal?.aborted) throw thrown;
      const why = messageOf((thrown as { cause?: unknown }).cause ?? thrown);
      throw new HoldfastError("tool_failed", `the server at ${root} did not answer: ${why}`, { cause: thrown });
    }
  }

  /** Sends a request of a session, and takes over the cookies of the reply, also of a refusal. */
  async function post(context: AgentContext, path: string, body: Json, once?: string): Promise<Json> {
    const jar = jarOf(context);
    const cookie = Object.entries(jar).map(([name, value]) => `${name}=${value}`);
    const { response, text } = await send(path, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(cookie.length > 0 && { cookie: cookie.join("; ") }),
        ...(once !== undefined && { "idempotency-key": headerText(once) }),
      },
      body: JSON.stringify(body),
      signal: context.signal,
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^\s*([^=;\s]+)\s*=\s*([^;]*)/.exec(line) ?? [];
      if (name !== undefined && value !== undefined) jar[name] = value;
    }
    remember(context, jar);
    if (!response.ok) throw refusal(response.status, text);
    return outputOf(text);
  }

  const jarKey = ({ session, invocation }: AgentContext): string => `${session} ${invocation}`;

  function jarOf(context: AgentContext): Cookies {
    return { ...(context.state[key] as Cookies | undefined), ...jars.get(jarKey(context)) };
  }

  function remember(context: AgentContext, jar: Cookies): void {
    const id = jarKey(context);
    jars.delete(id);
    jars.set(id, jar);
    const [oldest] = jars.keys();
    if (jars.size > mostJars && oldest !== undefined) jars.delete(oldest);
    context.state[key] = jar;
  }

  return {
    list() {
      if (tools) return Promise.resolve(structuredClone(tools));
      asked ??= askTools(root, send);
      asked.catch(() => (asked = undefined));
      return asked;
    },
    call: (context, { tool, input, once }) =>
      inTurn(context.session, async () => {
        context.signal.throwIfAborted();
        if (Object.keys(jarOf(context)).length === 0) {
          const task: unknown = (await taskOf(context)) ?? {};
          await post(context, "/seed_session", JSON.parse(JSON.stringify(task)) as Json);
        }
        return whenDecided(context.signal, () => post(context, `/${encodeURIComponent(tool)}`, input, once));
      }),
  };
}

function rootOf(url: string): string {
  if (!/^https?:\/\/./.test(url) || !URL.canParse(url)) {
    throw new HoldfastError("invalid_agent", `gymTools takes the address of a server, such as http://localhost:8080`);
  }
  return url.replace(/\/+$/, "");
}

async function askTools(
  root: string,
  send: (path: string, init: RequestInit) => Promise<{ response: Response; text: string }>,
): Promise<ToolSchema[]> {
  const { response, text } = await send("/v1/environment", { signal: AbortSignal.timeout(60_000) });
  const { tools } = Object(response.ok ? outputOf(text) : undefined) as { tools?: unknown };
  if (!Array.isArray(tools)) {
    const message = `the server at ${root} does not tell what tools it has: pass them as \`tools\` to gymTools`;
    throw new HoldfastError("invalid_agent", message);
  }
  return (tools as { name: string; description?: string; input?: { [keyword: string]: Json } }[]).map(
    ({ name, description, input }): ToolSchema => ({
      ...{ type: "function", name, ...(description !== undefined && { description }) },
      parameters: { type: "object", properties: {}, ...input },
    }),
  );
}

/** What a tool gave: the text as it came, or the JSON that it is where that makes the same text again. */
function outputOf(text: string): Json {
  try {
    const value = JSON.parse(text) as Json;
    return typeof value === "object" && JSON.stringify(value) === text ? value : text;
  } catch {
    return text;
  }
}

/** Codes that say something of the agent's own session: coming from a server they do not. */
const ownCodes = new Set(["session_busy", "run_cancelled"]);
const mostText = 2000;

/** A refusal as the model reads it: by its code, where the server is one of ours. */
function refusal(status: number, text: string): HoldfastError {
  const { code, message } = Object(Object(outputOf(text))["error"]) as { code?: unknown; message?: unknown };
  if (typeof code === "string" && Object.hasOwn(errorTable, code) && !ownCodes.has(code)) {
    return new HoldfastError(code as ErrorCode, typeof message === "string" ? message : code);
  }
  const shown = text.length > mostText ? `${text.slice(0, mostText)}…` : text;
  return new HoldfastError("tool_failed", `the server answered ${status}: ${shown || "with no text"}`);
}

/** Header values are plain text: another id stands for one that is not. */
const headerText = (id: string): string => (/^[\w.:-]{1,200}$/.test(id) ? id : derivedId(id));
