// environmentTools(): the tools of an environment, in process, for an agent. Each conversation plays one episode.
import type { AgentContext, Toolset } from "../core/agent.ts";
import { HoldfastError, unlessCoded } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { Sessions } from "../core/sessions.ts";
import { derivedId, whenDecided } from "./episodes.ts";
import { toolSchema } from "./list-tools.ts";

export interface EnvironmentToolsOptions {
  /** Returns the task of the episode, at the first call. By default the agent's state key `task`. */
  task?: (context: AgentContext) => unknown;
}

/**
 * Returns the tools of an environment. The first call of a conversation opens a session of the environment, and seeds it
 * if there is a task. Its id is in the agent's state under `environment:NAME`, for a later verify.
 *
 * A call is applied once, even if the run is interrupted and resumed. The id of the session follows from the conversation
 * and the invocation that opened it, and every call has an id of its own. A rewind of the conversation does not rewind the
 * environment: its calls stay made. If the invocation that opened the session is undone, the next one opens another.
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
  const schemas = [...environment.definitions].map(([name, definition]) => toolSchema(name, definition));
  /** Sessions that are being opened: the calls of one answer are concurrent. */
  const opening = new Map<string, Promise<unknown>>();

  async function findSession(context: AgentContext): Promise<string> {
    const known: unknown = context.state[key];
    if (typeof known === "string") return known;
    const id = derivedId(context.session, context.invocation, environment.name);
    let opened = opening.get(id);
    if (!opened) {
      opened = open(id, context).finally(() => opening.delete(id));
      opening.set(id, opened);
    }
    await opened;
    // An update, because all calls of one answer set it.
    context.update(key, () => id);
    return id;
  }

  async function open(id: string, context: AgentContext): Promise<void> {
    const task = await taskOf(context);
    const opened = sessions.open({ session: id, ...(task !== undefined && { task: plain(task) }) });
    // It may exist: the run was interrupted after it was opened.
    await opened.catch(unlessCoded("session_exists"));
  }

  return {
    list: () => Promise.resolve(structuredClone(schemas)),
    async call(context, { tool, input, once }) {
      const session = await findSession(context);
      const { signal } = context;
      const answer = await whenDecided(signal, () => sessions.call(session, tool, input, { call: once, signal }));
      if (answer.ok) return answer.output as Json;
      const { code, message, detail } = answer.error;
      // The log of the episode has the stack.
      const { stack: _, ...cause } = answer.thrown ?? {};
      throw new HoldfastError(code, message, { detail: { ...Object(detail) }, ...(answer.thrown && { cause }) });
    },
  };
}

/** Copies a task, because the values of a draft are not plain objects. */
function plain(task: unknown): unknown {
  return JSON.parse(JSON.stringify(task)) as unknown;
}
