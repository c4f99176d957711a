// gymTools(): the tools of an environment that is served over the gym protocol, by Holdfast or by others, for an agent.
import type { AgentContext, Toolset } from "../core/agent.ts";
import { errorTable, HoldfastError, type ErrorCode } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { ToolSchema } from "../core/model.ts";
import { whenDecided } from "../agent/episodes.ts";
import { createKeyedQueue } from "../io/keyed-queue.ts";
import { createGymClient, isOk, outputOf, shownText, type Cookies } from "./gym-client.ts";

export interface GymToolsOptions {
  /** What the model can call. By default the server is asked, by `GET /v1/environment`, which only Holdfast's answer. */
  tools?: ToolSchema[];
  /** The row that the session is seeded with, at the first call. By default what is under `task` in the agent's state. */
  task?: (context: AgentContext) => unknown;
}

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
  const client = createGymClient(url);
  const key = `gym:${client.root}`;
  /** By conversation and invocation: what is not in the state yet, because no result was committed, or the call failed. */
  const jars = new Map<string, Cookies>();
  // Servers of this protocol need not bear concurrent calls of one session.
  const inTurn = createKeyedQueue();

  /** Sends a request of a session, and takes over the cookies of the reply, also of a refusal. */
  async function post(context: AgentContext, path: string, body: Json, once?: string): Promise<Json> {
    const jar = jarOf(context);
    const { status, text, cookies } = await client.post({ path, body, once, signal: context.signal, cookies: jar });
    remember(context, cookies);
    if (!isOk({ status })) throw refusal(status, text);
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
    // The calls of one answer all set it.
    context.update(key, () => jar);
  }

  return {
    list() {
      if (tools) return Promise.resolve(structuredClone(tools));
      return client.tools();
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

/** Codes that say something of the agent's own session: coming from a server they do not. */
const ownCodes = new Set(["session_busy", "run_cancelled"]);

/** A refusal as the model reads it: by its code, where the server is one of ours. */
function refusal(status: number, text: string): HoldfastError {
  const { code, message } = Object(Object(outputOf(text))["error"]) as { code?: unknown; message?: unknown };
  if (typeof code === "string" && Object.hasOwn(errorTable, code) && !ownCodes.has(code)) {
    return new HoldfastError(code as ErrorCode, typeof message === "string" ? message : code);
  }
  return new HoldfastError("tool_failed", `the server answered ${status}: ${shownText(text)}`);
}
