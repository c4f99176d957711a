// Folds the part of a log that only conversations have: the speaker and the open turn.
import type { Event, EventOf, NumberedEvent, OpenTurn } from "./event.ts";

export interface Conversation {
  /**
   * The version of this fold. Older versions of Holdfast copy this part of a snapshot unchanged, so in their snapshots
   * it differs from the session's version.
   */
  version: number;
  /** The agent that the last transfer chose. */
  speaker?: string;
  /** The unfinished turn. */
  turn?: OpenTurn;
  /** The conversation keeps `user:` and `app:` keys to itself. */
  isolated?: true;
}

/**
 * An additional fold of a conversation, for an agent's loop. The engine keeps it between turns and adds every event in
 * force.
 */
export interface View {
  add(event: NumberedEvent): void;
}

/** Returns whether a log is a conversation with an agent rather than an episode of an environment. */
export function isConversation({ environment }: { environment: string }): boolean {
  return environment.startsWith("agent:");
}

/** Returns the conversation after one more event, as a new object. */
export function foldConversation(before: Conversation, event: Event, version: number): Conversation {
  const next: Conversation = { ...before, version };
  switch (event.type) {
    case "invocation.began":
      next.turn = openTurn(event, version);
      break;
    case "turn.taken":
      if (next.turn) next.turn = withLease(next.turn, event.lease);
      break;
    case "turn.released":
      if (next.turn) next.turn = withLease(next.turn, undefined);
      break;
    case "tools.answered":
      // A transfer does not outlive the turn if the agent is a tool or runs inside a composition.
      if (event.transfer !== undefined && !/[#/]/.test(event.path)) next.speaker = event.transfer;
      break;
    case "agent.ended":
      if (event.last) delete next.turn;
      break;
    case "agent.failed":
      // A failed agent ends the run, unless the agent is a tool or runs in parallel with others.
      if (next.turn && event.branch === undefined && !event.path.includes("#"))
        next.turn = withLease(next.turn, undefined);
      break;
    case "session.closed":
      delete next.turn;
      break;
    case "session.rewound": {
      const { isolated } = before;
      return { version, ...event.conversation, ...(isolated && { isolated }) };
    }
    default:
  }
  return next;
}

function openTurn({ invocation, agent, call, lease }: EventOf<"invocation.began">, began: number): OpenTurn {
  const turn: OpenTurn = { invocation, agent, began };
  if (call !== undefined) turn.call = call;
  if (lease) turn.lease = lease;
  return turn;
}

/** Returns the turn with a new owner. If the turn has no owner, any process may continue it. */
export function withLease(turn: OpenTurn, lease: OpenTurn["lease"]): OpenTurn {
  const next = { ...turn };
  if (lease) next.lease = lease;
  else delete next.lease;
  return next;
}
