// A session in the hands of a run, with something done around each of its commits.
import type { Entered } from "../core/agent-sessions.ts";

export function withCommit(entered: Entered, commit: Entered["commit"]): Entered {
  return {
    session: entered.session,
    user: entered.user,
    continued: entered.continued,
    // They change with every commit.
    get state() {
      return entered.state;
    },
    get steps() {
      return entered.steps;
    },
    view: (key, create) => entered.view(key, create),
    get conversation() {
      return entered.conversation;
    },
    seed: entered.seed,
    timeout: entered.timeout,
    signal: entered.signal,
    stored: () => entered.stored(),
    leave: () => entered.leave(),
    commit,
  };
}
