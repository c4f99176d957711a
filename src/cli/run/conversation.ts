// A conversation with an agent: opens or finds its session, and shows each turn's events.
import { run, type RunOptions } from "../../agent/run.ts";
import type { Agent } from "../../core/agent.ts";
import type { Conversations, SavedConversation } from "../../core/sessions.ts";
import type { AgentState } from "../../core/shared-state.ts";
import { HoldfastError, invalidOption, isHoldfastError } from "../../core/errors.ts";
import type { NumberedEvent } from "../../core/event.ts";
import { inForceIn } from "../../core/session.ts";
import { telemetry } from "../../telemetry/process.ts";
import { userText, type Printer } from "./printer.ts";

export interface ConversationOptions {
  agent: Agent;
  sessions: Conversations;
  printer: Printer;
  stream: boolean;
  error(text: string): void;
}

/** The end of a turn. If it failed, the user has already been told. */
export type Turn = "done" | "failed" | "cancelled";

export interface Conversation {
  /** Sends a message to the agent. Without one, continues an interrupted turn. */
  say(message: string | undefined, signal: AbortSignal): Promise<Turn>;
}

export function createConversation(session: string, options: ConversationOptions): Conversation {
  const { agent, sessions, printer, stream, error } = options;

  async function answer(given: RunOptions): Promise<Turn> {
    const traces = await telemetry();
    const running = run(traces?.agent(agent) ?? agent, { ...given, throwOnFailure: false });
    const events = traces?.run(agent.name, running) ?? running;
    for (;;) {
      const next = await events.next();
      if (!next.done) {
        printer.show(next.value);
        continue;
      }
      const { outcome } = next.value;
      if (outcome === "failed") return "failed";
      if (limits.has(outcome)) error(`[${agent.name}] stopped: it reached the limit \`${outcome}\`\n`);
      return "done";
    }
  }

  return {
    async say(message, signal) {
      const asked = { sessions, session, message, signal, stream };
      try {
        return await answer({ ...asked, busy: "refuse" }).catch((thrown: unknown) => {
          error(`${waitingFor(session, thrown)}\n`);
          return answer(asked);
        });
      } catch (thrown) {
        if (!isHoldfastError(thrown)) throw thrown;
        printer.finish();
        if (thrown.code === "run_cancelled") return "cancelled";
        error(`[${agent.name}] error: ${thrown.code}: ${thrown.message}\n`);
        return "failed";
      } finally {
        printer.finish();
      }
    },
  };
}

/** Explains why a turn has to wait. Throws any other error. */
function waitingFor(session: string, thrown: unknown): string {
  if (!isHoldfastError(thrown) || thrown.code !== "session_busy") throw thrown;
  const { lapsesIn } = thrown.detail;
  const atMost = typeof lapsesIn === "number" ? `; if that process has died, for ${Math.ceil(lapsesIn / 1000)} s` : "";
  return `Waiting: another process is running a turn of session ${session}${atMost}`;
}

const limits: ReadonlySet<string> = new Set(["steps", "tokens", "seconds", "empty"]);

export interface Opening {
  session: string | undefined;
  user: string | undefined;
  /** The initial state, if the session is new. */
  state: AgentState | undefined;
  saved: SavedConversation | undefined;
}

/** Opens the session for a conversation: a new one, one from the store, or a saved one. */
export async function openSession(sessions: Conversations, opening: Opening): Promise<string> {
  const { session, user, state, saved } = opening;
  if (saved) {
    assertUser("the saved session", saved.user, user);
    return (await sessions.restore(saved, session)).session;
  }
  const known = session === undefined ? undefined : await sessions.peek(session);
  if (!known) return (await sessions.open({ session, user, state })).session;
  assertUser(`session ${known.session}`, known.user ?? "user", user);
  if (known.ended) throw new HoldfastError("session_closed", `session ${known.session} was closed`);
  if (state && Object.keys(state).length > 0) {
    const message = `session ${known.session} exists, and the state of the file is for a new session; remove \`state\` from the file, or choose another --session`;
    throw new HoldfastError("session_exists", message);
  }
  return known.session;
}

function assertUser(what: string, is: string, wanted: string | undefined): void {
  if (wanted === undefined || wanted === is) return;
  throw invalidOption(`${what} belongs to the user ${is}, not to ${wanted}`);
}

/** Reads a session's events that are in force. */
export async function eventsInForce(sessions: Conversations, session: string): Promise<readonly NumberedEvent[]> {
  const events: NumberedEvent[] = [];
  for await (const event of sessions.events(session)) events.push(event);
  const isInForce = inForceIn(events);
  return events.filter(({ version }) => isInForce(version));
}

/** Returns the user's last message if its turn was interrupted: the process was killed, or the turn cancelled. */
export function cutShort(events: readonly NumberedEvent[]): string | undefined {
  const last = events.findLastIndex(({ type }) => type === "invocation.began");
  const began = events[last];
  if (began?.type !== "invocation.began") return undefined;
  const isOver = events.slice(last).some((event) => event.type === "agent.ended" && event.last);
  // A failed turn is finished, and the user was told.
  const hasFailed = events.at(-1)?.type === "agent.failed";
  return isOver || hasFailed ? undefined : userText(began.items);
}

/** Returns the user's messages, the newest first. */
export function queriesIn(events: readonly NumberedEvent[]): string[] {
  return events.flatMap((event) => (event.type === "invocation.began" ? userText(event.items) : [])).toReversed();
}
