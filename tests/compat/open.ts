// The only file here that names the engine's entry points: how this version opens, runs and replays the sessions of a store.
import * as holdfast from "holdfast";
import { createSessions, memoryStore, run, type Agent, type Sessions, type Store, type Verification } from "holdfast";
import { define, type DefineOptions, type Definitions } from "./definitions.ts";

export type Episodes = Sessions<Definitions["ledger"]>;
export type Conversations = holdfast.Conversations;

/** What came of a turn, with the items that were said in it. */
export interface TurnEnd {
  outcome: string;
  invocation: string;
  items: holdfast.Item[];
}

/** A message, or nothing to continue the turn that was cut short. */
export interface TurnStart {
  message?: string;
  stateDelta?: Record<string, unknown>;
}

/** A version of Holdfast, as far as the fixtures are asked about. */
export interface Engines {
  define(options: DefineOptions): Definitions;
  newStore(): Store;
  episodes(store: Store, ledger: Definitions["ledger"]): Episodes;
  conversations(store: Store, app: string): Conversations;
  turn(sessions: Conversations, agent: Agent, session: string, start: TurnStart): Promise<TurnEnd>;
  rewindBefore(sessions: Conversations, session: string, invocation: string): Promise<{ version: number }>;
  /** Undefined if the replay came out the same, otherwise the version of the first event that did not. */
  firstDifference(sessions: Conversations, agent: Agent, session: string): Promise<number | undefined>;
  /** What the ledger's verify returned. */
  verdict(verification: Verification): Record<"reward" | "total" | "calls" | "answer", unknown>;
}

export const engines: Engines = {
  define: (options) => define(holdfast, options),
  newStore: memoryStore,
  episodes: (store, ledger) => createSessions({ environment: ledger, store }),
  conversations: (store, app) => createSessions({ app, store }),
  async turn(sessions, agent, session, start) {
    const items: holdfast.Item[] = [];
    const running = run(agent, { sessions, session, throwOnFailure: false, ...start });
    for (let next = await running.next(); ; next = await running.next()) {
      if (next.done) return { outcome: next.value.outcome, invocation: next.value.invocation, items };
      if (next.value.type !== "partial") items.push(...(next.value.items ?? []));
    }
  },
  rewindBefore: (sessions, session, invocation) => sessions.rewind(session, { before: invocation }),
  async firstDifference(sessions, agent, session) {
    const replayed = await sessions.replay(session, { agent });
    return replayed.same ? undefined : replayed.version;
  },
  verdict: ({ verdict: { reward, total, calls, answer } }) => ({ reward, total, calls, answer }),
};
