// gymTools(): gives an agent the tools of any server that speaks the gym protocol.
import type { AgentContext, Toolset } from "../core/agent.ts";
import { dropOldest } from "../core/drop-oldest.ts";
import { HoldfastError, invalidOption } from "../core/errors.ts";
import { isObject, type Json } from "../core/json.ts";
import type { TaskRow } from "../core/rollout.ts";
import type { ToolSchema } from "../core/model.ts";
import { refuseUnknown } from "../core/suggest.ts";
import { whenDecided } from "../agent/episodes.ts";
import { createKeyedQueue } from "../io/keyed-queue.ts";
import { createGymClient, errorIn, failureIn, isOk, parseOutput, shownText, type Cookies } from "./gym-client.ts";

export interface GymToolsOptions {
  /** The tools to offer. Default: the list from `GET /v1/environment`, which only Holdfast's servers have. */
  tools?: ToolSchema[];
  /** Returns the row to seed the session with, at the first call. Default: the agent's state key `task`. */
  task?: (context: AgentContext) => unknown;
}

/** Maximum number of cookie jars kept in memory until their cookies are in the conversation's state. */
const mostJars = 10_000;

/**
 * Returns a resources server's tools. A conversation's first call seeds a session. The session's cookies, which grant
 * access to it, are stored in the agent's state under `gym:URL`. A conversation's calls are sent one by one.
 *
 * Every call has an `Idempotency-Key`, so a Holdfast server applies it once, even if the run is interrupted and
 * resumed. Other servers may ignore the key. After a crash before the first results are committed, a new session is
 * seeded, and the old session is left on the server. Rewinding the conversation does not rewind the server.
 *
 * @example
 * const agent = defineAgent({ name: "player", model, toolsets: [gymTools("http://localhost:8080")] });
 */
export function gymTools(url: string, options: GymToolsOptions = {}): Toolset {
  refuseUnknown("gymTools", options, { tools: true, task: true }, invalidOption);
  const { tools, task: taskOf = ({ state }) => state["task"] as unknown } = options;
  const client = createGymClient(url);
  const key = `gym:${client.root}`;
  /** Cookies that are not in the state yet, before a commit or after a failed call. By conversation and invocation. */
  const jars = new Map<string, Cookies>();
  // Calls to one session are sent one by one, because servers need not support concurrent calls.
  const inTurn = createKeyedQueue();

  /** Sends a session's request, and stores the reply's cookies, even if it is a refusal. */
  async function post(context: AgentContext, path: string, body: Json, once?: string): Promise<Json> {
    const jar = readJar(context);
    const { status, text, cookies } = await client.post({ path, body, once, signal: context.signal, cookies: jar });
    remember(context, cookies);
    if (!isOk({ status })) throw refusal(status, text);
    return parseOutput(text);
  }

  const jarKey = ({ session, invocation }: AgentContext): string => `${session} ${invocation}`;

  function readJar(context: AgentContext): Cookies {
    return { ...(context.state[key] as Cookies | undefined), ...jars.get(jarKey(context)) };
  }

  function remember(context: AgentContext, jar: Cookies): void {
    const id = jarKey(context);
    jars.delete(id);
    jars.set(id, jar);
    dropOldest(jars, mostJars);
    // An update instead of a plain write, because all calls in one answer change the cookies.
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
        if (Object.keys(readJar(context)).length === 0) {
          const task: unknown = (await taskOf(context)) ?? {};
          const seeded = await post(context, "/seed_session", JSON.parse(JSON.stringify(task)) as Json);
          const failed = isObject(seeded) ? failureIn(seeded as TaskRow) : undefined;
          if (failed !== undefined) throw new HoldfastError("seed_failed", `the server's seed failed: ${failed}`);
        }
        return whenDecided(context.signal, () => post(context, `/${encodeURIComponent(tool)}`, input, once));
      }),
  };
}

/** Returns a refusal as an error, with its code if the server is Holdfast's. Distinguishes failed servers and tools. */
function refusal(status: number, text: string): HoldfastError {
  const known = errorIn(text);
  if (known) return new HoldfastError(known.code, known.message);
  const code = status >= 500 ? "server_failed" : "tool_failed";
  return new HoldfastError(code, `the server answered ${status}: ${shownText(text)}`);
}
