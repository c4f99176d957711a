// forUsers(): a protocol of agents for requests with user tokens. The protocol sees only that user's conversations.
import { dropOldest } from "../core/drop-oldest.ts";
import { HoldfastError } from "../core/errors.ts";
import type { Protocol } from "../core/protocol.ts";
import type { AgentState } from "../core/shared-state.ts";
import { runAgent, type ServedAgent } from "../protocols/http/running.ts";
import { assertUser, conversationsOf } from "../session/of-user.ts";

/** Maximum number of users whose protocols are kept. */
const mostKept = 1_000;

/**
 * Creates a protocol for all conversations, and a protocol for each user with a token. A user's protocol gets only that
 * user's conversations, so it cannot forget an access check.
 */
export function forUsers(
  agents: readonly ServedAgent[],
  create: (agents: readonly ServedAgent[]) => Protocol,
): Protocol {
  const whole = create(agents);
  const kept = new Map<string, Protocol>();

  function protocolOf(user: string): Protocol {
    const known = kept.get(user);
    if (known) return known;
    const own = create(agents.map((served) => agentOf(served, user)));
    kept.set(user, own);
    dropOldest(kept, mostKept);
    return own;
  }

  return {
    ...whole,
    servesUsers: true,
    handle: (request) => (request.user === undefined ? whole : protocolOf(request.user)).handle(request),
  };
}

/** Limits a served agent to one user. The user cannot write `app:` state, because all users share it. */
function agentOf(served: ServedAgent, user: string): ServedAgent {
  const own = conversationsOf(served.sessions, user);
  return {
    agent: served.agent,
    sessions: {
      ...own,
      async open(options = {}) {
        if (!options.isolated) assertOwnState(options.state, user);
        return own.open(options);
      },
      async fork(session, options = {}) {
        assertOwnState(options.set, user);
        return own.fork(session, options);
      },
      update: (session, change, options) =>
        own.update(
          session,
          (state) => {
            const before = appState(state);
            change(state);
            if (appState(state) !== before) throw sharedByAll(user);
          },
          options,
        ),
    },
    run(asked) {
      assertUser(user, asked.user);
      assertOwnState(asked.stateDelta, user);
      return runAgent(served, asked);
    },
  };
}

const isShared = (key: string): boolean => key.startsWith("app:");

const appState = (state: AgentState): string => JSON.stringify(Object.entries(state).filter(([key]) => isShared(key)));

function assertOwnState(state: AgentState | undefined, user: string): void {
  if (state && Object.keys(state).some(isShared)) throw sharedByAll(user);
}

const sharedByAll = (user: string): HoldfastError =>
  new HoldfastError("foreign_user", `the token of user ${user} cannot write app: state, which all users share`);
