// environmentTools(): the tools of a whole environment, in process, for an agent. Each conversation plays one episode.
import type { AgentContext, Toolset } from "../core/agent.ts";
import { HoldfastError, isHoldfastError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { ToolSchema } from "../core/model.ts";
import { toJsonSchema } from "../core/schema.ts";
import type { Sessions } from "../core/sessions.ts";
import { derivedId, whenDecided } from "./episodes.ts";

export interface EnvironmentToolsOptions {
  /** The task of the episode, asked for at the first call. By default what is under `task` in the agent's state. */
  task?: (context: AgentContext) => unknown;
}

/**
 * The tools of an environment. At the first call of a conversation a session of the environment is opened, and seeded if
 * there is a task; its id is in the agent's state under `environment:NAME`, for who wants to verify it.
 *
 * A call is applied once, also where the run was cut short and goes on: the id of the session follows from the
 * conversation and the invocation that opened it, and every call is sent with an id of its own. What an invocation opened
 * that is then rewound is left behind, and the next one opens another. Calls that a rewind undoes in a session that was
 * opened before it stay made: the environment is not rewound.
 *
 * @example
 * const episodes = createSessions({ environment, store });
 * const agent = defineAgent({ name: "player", model, toolsets: [environmentTools(episodes)] });
 * …
 * const { reward } = await episodes.verify((await sessions.state(session))["environment:counter"]);
 */
export function environmentTools(sessions: Sessions, options: EnvironmentToolsOptions = {}): Toolset {
  const { environment } = sessions;
  const { task: taskOf = ({ state }) => state["task"] as unknown } = options;
  const key = `environment:${environment.name}`;
  const schemas = [...environment.definitions].map(([name, { description, input }]): ToolSchema => ({
    type: "function",
    name,
    description,
    parameters: { type: "object", properties: {}, ...toJsonSchema(input) },
  }));
  /** Sessions that are being opened: calls of one answer come side by side. */
  const opening = new Map<string, Promise<unknown>>();

  async function sessionOf(context: AgentContext): Promise<string> {
    const known: unknown = context.state[key];
    if (typeof known === "string") return known;
    const id = derivedId(context.session, context.invocation, environment.name);
    let opened = opening.get(id);
    if (!opened) {
      opened = open(id, context).finally(() => opening.delete(id));
      opening.set(id, opened);
    }
    await opened;
    // The calls of one answer all set it.
    context.update(key, () => id);
    return id;
  }

  async function open(id: string, context: AgentContext): Promise<void> {
    const task = await taskOf(context);
    try {
      await sessions.open({ session: id, ...(task !== undefined && { task: plain(task) }) });
    } catch (thrown) {
      // It was opened before the run was cut short.
      if (!isHoldfastError(thrown) || thrown.code !== "session_exists") throw thrown;
    }
  }

  return {
    list: () => Promise.resolve(structuredClone(schemas)),
    async call(context, { tool, input, once }) {
      const session = await sessionOf(context);
      const { signal } = context;
      const answer = await whenDecided(signal, () => sessions.call(session, tool, input, { call: once, signal }));
      if (answer.ok) return answer.output as Json;
      const { code, message, detail } = answer.error;
      throw new HoldfastError(code, message, { detail: { ...Object(detail) } });
    },
  };
}

/** What a draft shows is no plain object. */
function plain(task: unknown): unknown {
  return JSON.parse(JSON.stringify(task)) as unknown;
}
