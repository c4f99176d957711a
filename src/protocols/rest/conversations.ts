// An agent's REST API: its own routes, its description, and runs, streamed on request.
import type { ClientResult } from "../../agent/client-tools.ts";
import { ownTools, toolsetTools } from "../../agent/list-tools.ts";
import { HoldfastError } from "../../core/errors.ts";
import type { Labels } from "../../core/event.ts";
import type { Item, ToolSchema } from "../../core/model.ts";
import type { Protocol } from "../../core/protocol.ts";
import { refuseDeletedLabels } from "../http/deleted-label.ts";
import { sentEvent, wantsStream } from "../http/events-reply.ts";
import { createRouter, ok } from "../http/route.ts";
import { collectRun, runAgent, streamRun, type RunFrames, type ServedAgent } from "../http/running.ts";
import type { ListedTool, OtherRoute } from "./openapi.ts";
import { conversationRoutes } from "./conversation-routes.ts";
import { help, opened, sharedHandlers } from "./shared.ts";

export interface ConversationRestOptions extends ServedAgent {
  /** Signs a token for a user. Default: none, and /v1/tokens is not served. */
  issueToken?: ((user: string, expires?: number) => object) | undefined;
  /** Routes of other protocols, for the OpenAPI document. Default: none. */
  others?: readonly OtherRoute[] | undefined;
}

export function conversationRouter(served: ConversationRestOptions): Protocol["handle"] {
  const { agent, sessions, issueToken, others } = served;
  const about = { name: agent.name, description: agent.description };
  const described = { ...about, routes: conversationRoutes, schemas: {}, examples: {}, others };
  return createRouter(
    conversationRoutes,
    {
      ...sharedHandlers(sessions, () => ({ ...described, tools: ownTools(agent).map(listedTool) })),
      agent: async ({ request: { signal } }) =>
        ok({
          ...about,
          model: agent.kind === "model" ? agent.model.name : null,
          tools: [...ownTools(agent), ...(await toolsetTools(agent, signal))].map(listedTool),
          agents: agent.agents.map(({ name }) => name),
        }),
      issueToken: ({ body: { user, expires }, request }) => {
        if (request.user !== undefined) {
          throw new HoldfastError(
            "foreign_user",
            "the token of a user cannot issue tokens; use the server's own token",
          );
        }
        if (issueToken) return ok(issueToken(user, expires));
        throw new HoldfastError("not_found", "a server without a token issues no tokens; start it with --token");
      },
      openSession: async ({ body }) => {
        refuseDeletedLabels(body.labels);
        return opened(await sessions.open(body));
      },
      runAgent: async ({ id, body, request }) => {
        const { signal } = request;
        const stream = wantsStream(request);
        const { state_delta: stateDelta, call, user, seen } = body;
        const labels = body.labels as Labels | undefined;
        const message = body.message as string | Item[] | undefined;
        const clientTools = body.client_tools as ToolSchema[] | undefined;
        const results = body.results as ClientResult[] | undefined;
        const asked = { session: id, user, seen, message, clientTools, results, stateDelta, labels, call };
        // The run is refused immediately while another run holds the session.
        const running = runAgent(served, { sessions, ...asked, signal, stream, busy: "refuse" });
        return stream ? streamRun(running, signal, frames) : ok(await collectRun(running));
      },
      labelSession: async ({ id, body: { labels } }) => {
        refuseDeletedLabels(labels);
        return ok(await sessions.label(id, labels as Labels));
      },
      cancelTurn: async ({ id, body }) => ok({ cancelled: await sessions.cancel(id, body) }),
      forkSession: async ({ id, body }) => opened(await sessions.fork(id, body)),
      rewindSession: async ({ id, body: { version, invocation } }) =>
        ok(await sessions.rewind(id, version ?? { before: invocation as string })),
    },
    help,
  );
}

const listedTool = ({ name, description = "", parameters }: ToolSchema): ListedTool => ({
  name,
  description,
  input: parameters,
});

const frames: RunFrames = {
  event: (event) => sentEvent(event.type, event),
  done: (ended) => sentEvent("done", ended),
  error: (error) => sentEvent("error", error),
};
