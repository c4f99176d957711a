// restProtocol(): the REST API under /v1, for an environment or an agent. It has one route per engine operation, an
// OpenAPI document, and a page to try it.
import type { Protocol } from "../core/protocol.ts";
import { conversationRouter, type ConversationRestOptions } from "./rest/conversations.ts";
import { episodeRouter, type EpisodeRestOptions } from "./rest/episodes.ts";

export type { OtherRoute } from "./rest/openapi.ts";
export type { ConversationRestOptions, EpisodeRestOptions };
export type RestOptions = EpisodeRestOptions | ConversationRestOptions;

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
