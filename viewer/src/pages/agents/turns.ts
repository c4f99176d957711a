// Builds the turns of a conversation from its log, with everything said and done in each turn.
import type { AgentEvent, AgentOutcome, NumberedEvent, Thrown } from "../../../../src/core/event.ts";
import { isFunctionCall, isMessage, toText, type Content, type Item } from "../../../../src/core/model.ts";
import { inForceIn } from "../../../../src/core/session.ts";

export interface Turn {
  invocation: string;
  /** The version of the user's message. */
  version: number;
  at: number;
  /** Whether a rewind undid this turn. */
  isUndone: boolean;
  /** The outcome; undefined while the turn runs, or if it was interrupted. */
  outcome: AgentOutcome | undefined;
  /** From the message to the end; undefined while the turn runs. */
  seconds: number | undefined;
  /** The tokens of all model calls that reported them. */
  tokens: number;
  entries: Entry[];
}

interface EntryBase {
  /** The version of the event that contains this entry. */
  version: number;
  /** The author; undefined for the user. */
  agent: string | undefined;
  /** Whether the author is an agent used as a tool by another agent. */
  isInner: boolean;
}

export type Entry = EntryBase &
  (
    | { kind: "said" | "thought"; text: string }
    | Call
    | { kind: "failed"; step: string; code: string; message: string; thrown?: Thrown }
    | { kind: "handed over"; to: string }
    | { kind: "other"; type: string; item: Item }
  );

export interface Call {
  kind: "call";
  call: string;
  tool: string;
  input: string;
  /** Absent until the call returns. */
  output?: string;
  error?: { code: string; message: string };
  /** The error that the tool's code threw. */
  thrown?: Thrown;
}

export function buildTurns(events: readonly NumberedEvent[]): Turn[] {
  const turns: Turn[] = [];
  const inForce = inForceIn(events);
  for (const event of events) {
    if (event.type === "invocation.began") {
      const { invocation, version, at } = event;
      turns.push({ invocation, version, at, isUndone: !inForce(version), ...unfinished(), entries: [] });
    }
    if (!("invocation" in event) || event.type.startsWith("turn.")) continue;
    // Not always the last turn: a rewind may return to an earlier turn and continue it.
    const turn = turns.findLast(({ invocation }) => invocation === event.invocation);
    if (turn) add(turn, event as AgentEvent & { version: number });
  }
  return turns;
}

const unfinished = (): Pick<Turn, "outcome" | "seconds" | "tokens"> => ({
  outcome: undefined,
  seconds: undefined,
  tokens: 0,
});

/** The turn that a run without a message would resume. */
export function findUnfinished(turns: readonly Turn[]): Turn | undefined {
  const last = turns.findLast(({ isUndone }) => !isUndone);
  return last?.outcome === undefined ? last : undefined;
}

function add(turn: Turn, event: AgentEvent & { version: number }): void {
  const { version } = event;
  const isByUser = event.type === "invocation.began" || event.type === "client.answered";
  const path = "path" in event ? event.path : "";
  const about: EntryBase = { version, agent: isByUser ? undefined : event.agent, isInner: path.includes("#") };
  for (const item of event.items ?? []) addItem(turn, about, item);
  switch (event.type) {
    case "tools.answered":
      for (const { call, code, message } of event.failed ?? []) {
        const made = findCall(turn, call);
        if (made) made.error = { code, message };
      }
      for (const { call, ...thrown } of event.thrown ?? []) {
        const made = findCall(turn, call);
        if (made) made.thrown = thrown;
      }
      if (event.transfer !== undefined) turn.entries.push({ ...about, kind: "handed over", to: event.transfer });
      break;
    case "agent.failed":
      turn.entries.push({ ...about, kind: "failed", step: event.step, ...event.error, ...thrownIn(event) });
      break;
    case "agent.ended":
      if (!event.last) break;
      turn.outcome = event.outcome;
      turn.seconds = (event.at - turn.at) / 1000;
      break;
    case "model.answered":
      turn.tokens += event.usage?.total_tokens ?? 0;
      break;
  }
}

const thrownIn = ({ thrown }: { thrown?: Thrown }): { thrown?: Thrown } => (thrown ? { thrown } : {});

function addItem(turn: Turn, about: EntryBase, item: Item): void {
  if (isMessage(item)) turn.entries.push({ ...about, kind: "said", text: toText(item.content) });
  else if (isFunctionCall(item)) {
    const { call_id: call, name: tool, arguments: input } = item;
    turn.entries.push({ ...about, kind: "call", call, tool, input });
  } else if (item.type === "function_call_output") {
    const { call_id, output } = item as { call_id: string; output: string | Content[] };
    const made = findCall(turn, call_id);
    if (made) made.output = toText(output);
    else turn.entries.push({ ...about, kind: "other", type: item.type, item });
  } else if (item.type === "reasoning") {
    const text = thoughtText(item);
    if (text !== "") turn.entries.push({ ...about, kind: "thought", text });
  } else turn.entries.push({ ...about, kind: "other", type: item.type, item });
}

/** Finds the newest call with this id, because agents used as tools may reuse the ids of other agents. */
function findCall(turn: Turn, call: string): Call | undefined {
  return turn.entries.filter((entry) => entry.kind === "call").findLast((made) => made.call === call);
}

function thoughtText(item: Item): string {
  const { summary, content } = item as { summary?: Content[]; content?: Content[] };
  return [...(summary ?? []), ...(content ?? [])].map(({ text }) => text ?? "").join("\n");
}
