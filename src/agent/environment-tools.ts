// environmentTools(): gives an agent the tools of an environment in the same process. Each conversation runs one
// episode.
import type { AgentContext, Toolset } from "../core/agent.ts";
import { HoldfastError, invalidOption, unlessCoded } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { Sessions } from "../core/sessions.ts";
import { refuseUnknown } from "../core/suggest.ts";
import { derivedId, whenDecided } from "./episodes.ts";
import { toolSchema } from "./list-tools.ts";

export interface EnvironmentToolsOptions {
  /** Returns the episode's task. Called for the conversation's first tool call. Default: the state key `task`. */
  task?: (context: AgentContext) => unknown;
}

/**
 * Returns an environment's tools. A conversation's first call opens an environment session, and seeds it if there is a
 * task. The session's id is stored in the agent's state under `environment:NAME`, for a later verify.
 *
 * A call is applied once, even if the run is interrupted and resumed. For this, the session's id is derived from the
 * conversation and the invocation that opened the session, and every call has its own id. Rewinding the conversation
 * does not rewind the environment: calls that were made stay in effect. If the invocation that opened the session is
 * undone, the next one opens a new session. A fork of the conversation gets a fork of the session, which has the calls
 * that the forked conversation has.
 *
 * @example
 * const episodes = createSessions({ environment, store });
 * const agent = defineAgent({ name: "player", model, toolsets: [environmentTools(episodes)] });
 * …
 * const { reward } = await episodes.verify((await sessions.state(session))["environment:counter"]);
 */
export function environmentTools(sessions: Sessions, options: EnvironmentToolsOptions = {}): Toolset {
  refuseUnknown("environmentTools", options, { task: true }, invalidOption);
  const { environment } = sessions;
  const { task: taskOf = ({ state }) => state["task"] as unknown } = options;
  const key = `environment:${environment.name}`;
  const schemas = [...environment.definitions].map(([name, definition]) => toolSchema(name, definition));
  /** The state key for the newest version of a session that this toolset opened, and for its conversation. */
  const placeKey = `${key}:at`;
  /** Sessions that are being opened. The calls in one answer run concurrently, so they all wait for one opening. */
  const opening = new Map<string, Promise<unknown>>();

  /** Returns the conversation's session, and whether this toolset opened it. A rollout opens its session itself. */
  async function findSession(context: AgentContext): Promise<{ session: string; isOwn: boolean }> {
    const { [key]: known, [placeKey]: place } = context.state as { [key: string]: unknown };
    const { conversation, version } = Object(place) as Partial<Place>;
    const isForked = conversation !== undefined && conversation !== context.session;
    if (typeof known === "string" && !isForked) return { session: known, isOwn: conversation !== undefined };
    const session = derivedId(context.session, context.invocation, environment.name);
    let opened = opening.get(session);
    if (!opened) {
      const opens = isForked && typeof known === "string" ? fork(known, version, session) : open(session, context);
      // The session may already exist, if the run was interrupted after opening it.
      opened = opens.catch(unlessCoded("session_exists")).finally(() => opening.delete(session));
      opening.set(session, opened);
    }
    await opened;
    // Uses `update`, because concurrent calls of one answer all set this key.
    context.update(key, () => session);
    return { session, isOwn: true };
  }

  const fork = (parent: string, version: number | undefined, session: string): Promise<unknown> =>
    sessions.fork(parent, { version, session });

  async function open(session: string, context: AgentContext): Promise<unknown> {
    const task = await taskOf(context);
    return sessions.open({ session, ...(task !== undefined && { task: plain(task) }) });
  }

  /** Remembers how far a session has come, so that a fork of the conversation forks it there. */
  function remember(context: AgentContext, version: number): void {
    context.update(placeKey, (before): Place => {
      const { conversation, version: last = 0 } = Object(before) as Partial<Place>;
      const isSame = conversation === context.session;
      return { conversation: context.session, version: isSame ? Math.max(last, version) : version };
    });
  }

  return {
    list: () => Promise.resolve(structuredClone(schemas)),
    async call(context, { tool, input, once }) {
      const { session, isOwn } = await findSession(context);
      const { signal } = context;
      const answer = await whenDecided(signal, () => sessions.call(session, tool, input, { call: once, signal }));
      if (isOwn) remember(context, answer.version);
      if (answer.ok) return answer.output as Json;
      const { code, message, detail } = answer.error;
      // Omits the stack trace, because the episode's log has it.
      const { stack: _, ...cause } = answer.thrown ?? {};
      throw new HoldfastError(code, message, { detail: { ...Object(detail) }, ...(answer.thrown && { cause }) });
    },
  };
}

/** How far the session of a conversation has come. */
interface Place {
  conversation: string;
  version: number;
}

/** Copies a task, because a draft's values are not plain objects. */
function plain(task: unknown): unknown {
  return JSON.parse(JSON.stringify(task)) as unknown;
}
