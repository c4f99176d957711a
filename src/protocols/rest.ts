// restProtocol(): the REST API under /v1, for an environment or an agent. It has one route per engine operation, an
// OpenAPI document, and a page to try it.
import type { Protocol } from "../core/protocol.ts";
import type { Episodes } from "../core/sessions.ts";
import type { SessionPlayer } from "../rollout/play/continue-session.ts";
import type { RolloutRequests } from "../rollout/requests.ts";
import type { TaskFiles } from "../rollout/task-files.ts";
import type { Bindings } from "./http/mcp-binding.ts";
import { conversationRouter, type ConversationRestOptions } from "./rest/conversations.ts";
import { episodeRouter } from "./rest/episodes.ts";

export type RestOptions = EpisodeRestOptions | ConversationRestOptions;

export interface EpisodeRestOptions {
  sessions: Episodes;
  /** Models that can continue a session. Default: none, and /play is not served. */
  sessionPlayer?: SessionPlayer | undefined;
  /** Runs requests for rollouts. Default: none, and /v1/rollouts is not served. */
  requests?: RolloutRequests | undefined;
  /** Adds instructions for MCP clients to an opened session: how to reach it. Default: nothing is added. */
  bindings?: Bindings | undefined;
  /** The environment's tasks, for /v1/tasks. Default: none. */
  tasks?: TaskFiles | undefined;
}

/**
 * Serves sessions over HTTP, to programs and people. Throws the errors of `sessions`, for the server to handle.
 *
 * @example
 * const rest = restProtocol({ sessions });
 * await rest.handle({ method: "POST", path: "/v1/sessions", query, headers: {}, body: { task }, signal });
 *
 * @example
 * const rest = restProtocol({ sessions: createSessions({ app: "greeter", agent, store }), agent });
 * await rest.handle({ method: "POST", path: `/v1/sessions/${id}/run`, query, headers: {}, body: { message: "hello" }, signal });
 */
export function restProtocol(options: RestOptions): Protocol {
  const handle = "agent" in options ? conversationRouter(options) : episodeRouter(options);
  return { name: "rest", handle };
}
