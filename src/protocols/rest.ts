// restProtocol(): the REST API under /v1, for an environment or an agent. It has one route per engine operation, an
// OpenAPI document, and a page to try it.
import type { Agent } from "../core/agent.ts";
import type { Protocol } from "../core/protocol.ts";
import type { Conversations, Episodes } from "../core/sessions.ts";
import type { SessionPlayer } from "../rollout/play/continue-session.ts";
import type { RolloutRequests } from "../rollout/requests.ts";
import type { Bindings } from "./http/mcp-binding.ts";
import { conversationRouter, type RunAgent } from "./rest/conversations.ts";
import { episodeRouter } from "./rest/episodes.ts";

export type RestOptions = EpisodeRestOptions | ConversationRestOptions;

export interface EpisodeRestOptions {
  sessions: Episodes;
  /** Models that can continue a session. Default: none, and /play is not served. */
  sessionPlayer?: SessionPlayer | undefined;
  /** Plays requests for rollouts. Default: none, and /v1/rollouts is not served. */
  requests?: RolloutRequests | undefined;
  /** Adds instructions for MCP clients to an opened session: how to reach it. Default: nothing is added. */
  bindings?: Bindings | undefined;
}

export interface ConversationRestOptions {
  sessions: Conversations;
  agent: Agent;
  /** Runs the agent, by default with `run`. Every event is committed before it is yielded, except `partial` ones. */
  run?: RunAgent;
}

/**
 * Serves sessions over HTTP, to programs and people. Errors from `sessions` are left to the server.
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
  const handle =
    "agent" in options ? conversationRouter(options.sessions, options.agent, options.run) : episodeRouter(options);
  return { name: "rest", handle };
}
