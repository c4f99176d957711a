// The handlers of the routes that episodes and conversations share.
import type { Reply } from "../../core/protocol.ts";
import type { Conversations, Episodes, SessionInfo } from "../../core/sessions.ts";
import type { Listed } from "../../core/store.ts";
import { eventsReply } from "../http/events-reply.ts";
import { ok, takeFirst, type Handlers } from "../http/route.ts";
import { buildOpenApi, type Described } from "./openapi.ts";
import { page, pageHeaders } from "./page.ts";
import type { sharedRoutes } from "./routes.ts";

/** Part of the message for an unknown path. */
export const help = "/openapi.json lists the routes";

export const opened = <Info extends SessionInfo>(info: Info): Reply => ({
  status: 201,
  body: info,
  about: { session: info.session },
});

export function sharedHandlers(
  sessions: Episodes | Conversations,
  describe: () => Described,
): Handlers<typeof sharedRoutes> {
  let document: string | undefined;
  return {
    listSessions: async ({ query: { opened_before: openedBefore, idle_before: idleBefore, limit, ...filter } }) => {
      const wanted = { ...filter, openedBefore, idleBefore };
      const { items, more } = await takeFirst<Listed>(sessions.list(wanted), limit);
      // In a list sorted by idle time, sessions change places, so there is no position to continue from.
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
    forkSession: async ({ id, body }) => opened(await sessions.fork(id, body)),
    rewindSession: async ({ id, body }) => ok(await sessions.rewind(id, body.version)),
    replaySession: async ({ id }) => ok(await sessions.replay(id)),
    expireSessions: async () => ok({ ended: await sessions.expire() }),
    openapi: () => {
      document ??= JSON.stringify(buildOpenApi(describe()));
      return { status: 200, headers: { "content-type": "application/json" }, text: document };
    },
    docs: () => ({ status: 200, headers: pageHeaders, text: page }),
  };
}
