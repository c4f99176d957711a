// conversationsOf(): one user's conversations. For its caller, no other user's conversation exists.
import { HoldfastError } from "../core/errors.ts";
import type { Conversations, SessionInfo } from "../core/sessions.ts";

/**
 * Returns an app's conversations, limited to the conversations of one user.
 *
 * @example
 * const own = conversationsOf(sessions, "ann");
 * await own.info(session); // throws session_not_found if the session belongs to another user
 */
export function conversationsOf(sessions: Conversations, user: string): Conversations {
  const missing = (session: string): HoldfastError =>
    new HoldfastError("session_not_found", `user ${user} has no session ${session}`, { detail: { session } });

  /** Finds an own session. The error for another user's session is the same as for an unknown one. */
  async function findOwn(session: string): Promise<SessionInfo> {
    const info = await sessions.peek(session);
    if (info?.user !== user) throw missing(session);
    return info;
  }

  /** Wraps a method, so that it refuses other users' sessions. */
  function own<Options extends unknown[], Result>(run: (session: string, ...options: Options) => Promise<Result>) {
    return async (session: string, ...options: Options): Promise<Result> => {
      await findOwn(session);
      return run(session, ...options);
    };
  }

  return {
    app: sessions.app,
    user,
    cache: sessions.cache,
    newSession: () => sessions.newSession(),
    async open(options = {}) {
      assertUser(user, options.user);
      return sessions.open({ ...options, user });
    },
    info: findOwn,
    async peek(session) {
      const info = await sessions.peek(session);
      return info?.user === user ? info : undefined;
    },
    async *list(filter = {}) {
      assertUser(user, filter.user);
      if (filter.after !== undefined) await findOwn(filter.after);
      yield* sessions.list({ ...filter, user });
    },
    async *events(session, options) {
      await findOwn(session);
      yield* sessions.events(session, options);
    },
    async close(session) {
      return (await sessions.peek(session))?.user === user && sessions.close(session);
    },
    state: own((...asked) => sessions.state(...asked)),
    fork: own((...asked) => sessions.fork(...asked)),
    rewind: own((...asked) => sessions.rewind(...asked)),
    replay: own((...asked) => sessions.replay(...asked)),
    save: own((...asked) => sessions.save(...asked)),
    update: own((...asked) => sessions.update(...asked)),
    label: own((...asked) => sessions.label(...asked)),
    cancel: own((...asked) => sessions.cancel(...asked)),
    enter: own((...asked) => sessions.enter(...asked)),
    async restore(saved, session) {
      assertUser(user, saved.user);
      // Sets the user, so that `restore` refuses a log that belongs to another user.
      return sessions.restore({ ...saved, user }, session);
    },
    async expire() {
      throw new HoldfastError("foreign_user", `ending other users' sessions needs the server's own token`);
    },
    stop: (options) => sessions.stop(options),
  };
}

/** Refuses a request for another user. */
export function assertUser(user: string, given: string | undefined): void {
  if (given === undefined || given === user) return;
  throw new HoldfastError("foreign_user", `this token is for user ${user}, not for user ${given}`);
}
