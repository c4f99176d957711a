// Folds the part of a log that only conversations have: the current agent and the open turn.
import type { Event, EventOf, NumberedEvent, OpenTurn } from "./event.ts";

export interface Conversation {
  /**
   * The version of the log up to which this part was folded. Old releases of Holdfast copy this part from one snapshot
   * to the next without folding it. In their snapshots, this version differs from the session's version.
   */
  version: number;
  /** The agent that the last transfer chose. */
  speaker?: string;
  /** The unfinished turn. */
  turn?: OpenTurn;
  /** The conversation stores `user:` and `app:` keys in its own state and does not share them. */
  isolated?: true;
}

/**
 * An additional fold of a conversation, for an agent's loop. The engine keeps it between turns and adds every event
 * that was not undone.
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
    case "client.answered":
      if (next.turn) next.turn = answeredTurn(next.turn, event, version);
      break;
    case "turn.taken":
      if (next.turn) next.turn = withLease(next.turn, event.lease);
      break;
    case "turn.released":
      if (next.turn) next.turn = released(next.turn, event.reason === "cancelled" || event.reason === "failed");
      break;
    case "tools.answered":
      if (next.turn && event.waiting) next.turn = waitingTurn(next.turn, event.waiting);
      // A transfer does not outlive the turn if the agent is a tool or runs inside a composition.
      if (event.transfer !== undefined && !/[#/]/.test(event.path)) next.speaker = event.transfer;
      break;
    case "agent.ended":
      if (event.last) delete next.turn;
      break;
    case "agent.failed":
      // A failed agent ends the run, unless the agent is a tool or runs in parallel with others.
      if (next.turn && event.branch === undefined && !event.path.includes("#")) next.turn = released(next.turn, true);
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

function waitingTurn(turn: OpenTurn, calls: readonly { call_id: string }[]): OpenTurn {
  return { ...turn, waiting: [...(turn.waiting ?? []), ...calls.map(({ call_id }) => call_id)] };
}

/** Returns the turn after the client's results. */
function answeredTurn(turn: OpenTurn, { call, lease }: EventOf<"client.answered">, answered: number): OpenTurn {
  const { call: _call, lease: _lease, waiting: _waiting, givenUp: _givenUp, ...rest } = turn;
  const next: OpenTurn = { ...rest, answered };
  if (call !== undefined) next.call = call;
  if (lease) next.lease = lease;
  return next;
}

/** Returns the turn without an owner. */
function released(turn: OpenTurn, isGivenUp: boolean): OpenTurn {
  const next = withLease(turn, undefined);
  if (isGivenUp && next.waiting) next.givenUp = true;
  return next;
}

const limits: ReadonlySet<string> = new Set(["steps", "tokens", "seconds", "empty"]);

/** Returns whether an agent ended because it reached one of its limits. */
export const isLimit = (outcome: string): boolean => limits.has(outcome);

/** Returns whether a turn waits for the client's results. A process may still run other agents of the turn. */
export const isWaiting = (turn: OpenTurn | undefined): turn is OpenTurn & { waiting: string[] } =>
  turn?.waiting !== undefined && !turn.givenUp;

/** Returns the turn with a new owner. If the turn has no owner, any process may continue it. */
function withLease(turn: OpenTurn, lease: OpenTurn["lease"]): OpenTurn {
  const next = { ...turn };
  if (lease) {
    next.lease = lease;
    delete next.givenUp;
  } else delete next.lease;
  return next;
}

/** Returns the speaker and the open turn for a rewind event. The turn has no lease, because no process runs it. */
export function resting({ speaker, turn }: Partial<Conversation> = {}): { speaker?: string; turn?: OpenTurn } {
  return { ...(speaker !== undefined && { speaker }), ...(turn && { turn: withLease(turn, undefined) }) };
}
