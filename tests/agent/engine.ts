// Opens engines of agents on every kind of store for the tests in this folder, and closes everything after each test.
import {
  createSessions,
  type Agent,
  type ConversationOptions,
  type Conversations,
  type AgentState,
  type NumberedEvent,
  type RunEvent,
  type RunOptions,
  type RunResult,
  run,
} from "holdfast";
import { afterEach, describe, test } from "vitest";
import { everyStore, type Storage, type StoreKind } from "../every-store.ts";

export interface Place {
  kind: StoreKind;
  storage: Storage;
  /** An engine on the storage's store. */
  engine(app?: string, options?: Partial<ConversationOptions>): Conversations;
  /** An engine with its own store and cache on the same storage, as another process would have. */
  replica(app?: string, options?: Partial<ConversationOptions>): Promise<Conversations>;
}

const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function open(kind: StoreKind): Promise<Place> {
  const storage = await kind.open();
  cleanups.push(() => storage.dispose());
  const on = (store: Storage["store"], app = "app", options: Partial<ConversationOptions> = {}): Conversations => {
    const sessions = createSessions({ app, store, ...options });
    cleanups.push(() => sessions.stop());
    return sessions;
  };
  return {
    kind,
    storage,
    engine: (app, options) => on(storage.store, app, options),
    replica: async (app, options) => on(await storage.second(), app, options),
  };
}

/** A test that runs on every kind of store: on some in `npm test`, on the others in the full lane. */
export function onEveryStore(title: string, run: (place: Place) => Promise<void>): void {
  for (const kind of everyStore) {
    describe(`on ${kind.name}`, { tags: kind.tags }, () => {
      test(title, async () => run(await open(kind)));
    });
  }
}

export type Committed = Exclude<RunEvent, { type: "partial" }>;

/** Runs an agent to the end; a failure is an outcome. Calls `look` at every event, while the run waits. */
export async function finish(
  agent: Agent,
  options: RunOptions,
  look: (event: RunEvent) => unknown = () => undefined,
): Promise<RunResult & { events: RunEvent[] }> {
  const running = run(agent, { throwOnFailure: false, ...options });
  const events: RunEvent[] = [];
  try {
    for (;;) {
      const next = await running.next();
      if (next.done) return { ...next.value, events };
      events.push(next.value);
      await look(next.value);
    }
  } finally {
    await running.return({ session: "", invocation: "", outcome: "failed", repeated: false });
  }
}

/** The code of a refusal; "nothing" without one. */
export async function codeOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => "nothing",
    (thrown: { code?: unknown }) => thrown.code ?? thrown,
  );
}

export async function logOf(sessions: Conversations, session: string): Promise<NumberedEvent[]> {
  const events: NumberedEvent[] = [];
  for await (const event of sessions.events(session)) events.push(event);
  return events;
}

/** The events of a log, without the events that say who holds a turn. */
export async function stepsOf(sessions: Conversations, session: string): Promise<NumberedEvent[]> {
  return (await logOf(sessions, session)).filter(({ type }) => !type.startsWith("turn."));
}

export const typesOf = (events: { type: string }[]): string[] => events.map(({ type }) => type);

/** Copies a state to plain data: the state of a context is not a plain object. */
export const plain = (state: object): AgentState => JSON.parse(JSON.stringify(state)) as AgentState;

/** A promise to wait for, and the function that resolves it. */
export function gate(): { open(): void; opened: Promise<void> } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { open, opened };
}
