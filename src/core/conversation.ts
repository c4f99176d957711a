// A conversation: what the fold of an agent's session has beyond that of any session. Who speaks, and the open turn.
import type { Event, EventOf, OpenTurn } from "./event.ts";

export interface Conversation {
  /**
   * The version that this is the fold of. Older versions of Holdfast carry it along unchanged: in a snapshot of theirs it
   * is not that of the session.
   */
  version: number;
  /** The agent that the conversation was handed over to last. */
  speaker?: string;
  /** The turn that is not over. */
  turn?: OpenTurn;
  /** It keeps `user:` and `app:` keys to itself. */
  isolated?: true;
}

/** Whether a log is a conversation of an agent, and not an episode of an environment. */
export function isConversation({ environment }: { environment: string }): boolean {
  return environment.startsWith("agent:");
}

/** The conversation after one more event, as a new object. */
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
      // A transfer by an agent that is a tool, or that runs inside a composition, does not outlive the turn.
      if (event.transfer !== undefined && !/[#/]/.test(event.path)) next.speaker = event.transfer;
      break;
    case "agent.ended":
      if (event.last) delete next.turn;
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

/** The turn with another owner, or with none: then anybody may continue it. */
export function withLease(turn: OpenTurn, lease: OpenTurn["lease"]): OpenTurn {
  const next = { ...turn };
  if (lease) next.lease = lease;
  else delete next.lease;
  return next;
}
