// restProtocol(): the REST API under /v1. One route per verb of Sessions, an OpenAPI document, and a page to try it.
import { HoldfastError } from "../core/errors.ts";
import { eventsReply } from "./http/events-reply.ts";
import type { SessionPlayer } from "../rollout/play/continue-session.ts";
import type { Protocol } from "../core/protocol.ts";
import { checked, createRouter, takeFirst, ok, type Handlers } from "./http/route.ts";
import type { Sessions } from "../core/sessions.ts";
import type { Listed } from "../core/store.ts";
import { describeEnvironment, buildOpenApi } from "./rest/openapi.ts";
import { page, pageHeaders } from "./rest/page.ts";
import { routes } from "./rest/routes.ts";

export interface RestOptions {
  sessions: Sessions;
  /** Models that can continue a session. Default: none, and /play is not served. */
  sessionPlayer?: SessionPlayer | undefined;
}

/**
 * Serves sessions over HTTP, to programs and people. Errors of `sessions` are left to the server.
 *
 * @example
 * const rest = restProtocol({ sessions });
 * await rest.handle({ method: "POST", path: "/v1/sessions", query, headers: {}, body: { task }, signal });
 */
export function restProtocol({ sessions, sessionPlayer }: RestOptions): Protocol {
  const models = sessionPlayer?.models ?? [];
  let document: unknown;
  const handlers: Handlers<typeof routes> = {
    environment: () => ok(describeEnvironment(sessions.environment)),
    openSession: async ({ body }) => {
      const info = await sessions.open(body);
      return { status: 201, body: info, about: { session: info.session } };
    },
    listSessions: async ({ query }) => {
      const { open, opened_before: openedBefore, idle_before: idleBefore, after, limit } = query;
      const { items, more } = await takeFirst<Listed>(sessions.list({ open, openedBefore, idleBefore, after }), limit);
      // Sorted by idle time, sessions move within the list, so there is no position to continue from.
      const next = more && idleBefore === undefined ? items.at(-1)?.session : undefined;
      return ok({ sessions: items, next: next ?? null, more });
    },
    getSession: async ({ id }) => ok(await sessions.info(id)),
    closeSession: async ({ id }) => ok({ closed: await sessions.close(id) }),
    getState: async ({ id, query }) => {
      // Read the version first, so that the reply names the version of its state.
      const version = query.version ?? (await sessions.info(id)).version;
      return ok({ session: id, version, state: (await sessions.state(id, version)) as unknown });
    },
    listEvents: (given) => eventsReply(sessions, given),
    callTool: async ({ id, body: { tool, input, call, episode }, request: { signal } }) => {
      return ok(await sessions.call(id, tool, input, { call, episode, signal }));
    },
    seedSession: async ({ id, body: { task, ...options } }) => ok(await sessions.seed(id, task, options)),
    verifySession: async ({ id, body, request: { signal } }) => ok(await sessions.verify(id, { ...body, signal })),
    sessionRewards: async ({ id, request: { signal } }) =>
      ok({ session: id, rewards: await sessions.rewards(id, { signal }) }),
    playSession: async ({ id, body: { model, input, max_steps: maxSteps }, request: { signal } }) => {
      if (!sessionPlayer) throw new HoldfastError("not_found", "the server has no model that could play");
      checked({ enum: models }, model, "model");
      return ok(
        await sessionPlayer.play(id, { model, input: input as string | unknown[] | undefined, maxSteps, signal }),
      );
    },
    forkSession: async ({ id, body }) => {
      const info = await sessions.fork(id, body);
      return { status: 201, body: info };
    },
    rewindSession: async ({ id, body }) => ok(await sessions.rewind(id, body.version)),
    replaySession: async ({ id }) => ok(await sessions.replay(id)),
    openapi: () => ok((document ??= buildOpenApi(sessions.environment, models))),
    docs: () => ({ status: 200, headers: pageHeaders, text: page }),
  };

  return { name: "rest", handle: createRouter(routes, handlers, "/openapi.json lists what there is") };
}
