// A turn of a conversation as a response of OpenAI's APIs: its texts, its usage and how it ended.
import { foldConversation, isLimit, isWaiting, type Conversation } from "../../core/conversation.ts";
import type { NumberedEvent } from "../../core/event.ts";
import { answerText, type FunctionCall, type Item, type ModelResponse, type Usage } from "../../core/model.ts";
import type { Conversations } from "../../core/sessions.ts";
import { deletedLabel } from "../http/deleted-label.ts";
import type { PartBegan } from "../http/find-began.ts";
import { nameCall } from "./client-calls.ts";

/**
 * A response's id names its session and the version at which its part of a turn began, so any server can find it. A
 * turn that waited for results from the client has several parts.
 */
export const responseId = (session: string, began: number): string => `${session}_${began}`;

export function parseResponseId(id: string): { session: string; began: number } | undefined {
  const [, session, began] = /^resp_(.+)_([1-9]\d{0,14})$/s.exec(id) ?? [];
  return session === undefined ? undefined : { session, began: Number(began) };
}

/** The text that an event says to the user. An agent used as a tool speaks only to its caller. */
export const textOf = (event: NumberedEvent): string =>
  "path" in event && !event.path.includes("#") ? answerText(event.items ?? []) : "";

/** The calls that an event leaves to the client. */
export const clientCalls = (event: NumberedEvent): FunctionCall[] =>
  event.type === "tools.answered" ? (event.waiting ?? []) : [];

/** A part of a turn, which is one response. */
export interface Turn {
  began: PartBegan;
  events: NumberedEvent[];
  /** The newest version of the log that was read. */
  seen: number;
  /** The client has deleted the response. Its turn stays in the log, because later turns continue it. */
  isDeleted: boolean;
  /** The first later event that began another part or rewound the session. */
  next?: NumberedEvent;
}

/** Reads a part of a turn from its log; undefined if no part begins at this version. */
export async function readTurn(sessions: Conversations, session: string, began: number): Promise<Turn | undefined> {
  const info = await sessions.peek(session);
  if (!info || info.ended !== undefined) return undefined;
  const isDeleted = info.labels[deletedLabel(began)] !== undefined;
  let turn: Turn | undefined;
  for await (const event of sessions.events(session, { after: began - 1 })) {
    if (turn) addToTurn(turn, event);
    else if (isBegan(event)) turn = { began: event, events: [], seen: event.version, isDeleted };
    if (!turn || turn.next) return turn;
  }
  return turn;
}

/**
 * If a part of a turn began with results of calls, finds the response that made these calls. Returns its id without the
 * prefix `resp_`; undefined if the part did not begin with results.
 */
export async function answeredBy(
  sessions: Conversations,
  session: string,
  { type, invocation, version, labels }: PartBegan,
): Promise<string | undefined> {
  if (type !== "client.answered") return undefined;
  const previous = labels?.["previous_response_id"];
  if (typeof previous === "string") return previous.replace("resp_", "");
  let id: string | undefined;
  let parent = { session, version: 0 };
  for await (const event of sessions.events(session)) {
    if (event.version >= version) break;
    if (event.type === "session.opened" && event.parent) ({ parent } = event);
    if (!isBegan(event) || event.invocation !== invocation) continue;
    // A forked session begins with a copy of its parent's events. The client knows those calls by the parent's response
    // ids.
    id = responseId(event.version > parent.version ? session : parent.session, event.version);
  }
  return id;
}

/** Adds the next event of the log. */
export function addToTurn(turn: Turn, event: NumberedEvent): void {
  if (isBegan(event) || event.type === "session.rewound") turn.next = event;
  else if ("invocation" in event && event.invocation === turn.began.invocation) turn.events.push(event);
  if (!turn.next) turn.seen = event.version;
}

/** Returns the ids of the calls that a conversation waits for after a part of a turn. */
export function openAfter({ began: { invocation, version }, events }: Turn): string[] {
  let after: Conversation = { version, turn: { invocation, agent: "", began: version } };
  for (const event of events) after = foldConversation(after, event, event.version);
  return isWaiting(after.turn) ? after.turn.waiting : [];
}

export const isBegan = (event: { type: string }): event is PartBegan =>
  event.type === "invocation.began" || event.type === "client.answered";

/** Returns whether an event may decide the outcome of a turn. */
export const isEnding = ({ type }: NumberedEvent): boolean =>
  /^(?:agent\.(?:ended|failed)|turn\.(?:released|taken))$/.test(type);

/** The outcome of a part of a turn, in the terms of the Responses API. */
export interface Summary {
  response: ModelResponse;
  status: "completed" | "incomplete" | "failed" | "in_progress" | "cancelled";
  error: { code: string; message: string } | null;
}

/** Summarizes the events of a response. `id` is the response's id without its prefix. */
export function summarize(id: string, { events, next }: Pick<Turn, "events" | "next">): Summary {
  const output = events.flatMap((event): Item[] => {
    const text = textOf(event);
    const said: Item = { type: "message", role: "assistant", content: [{ type: "output_text", text }] };
    const calls = clientCalls(event).map((call) => ({ ...call, call_id: nameCall(id, call) }));
    return text === "" ? calls : [said, ...calls];
  });
  const usage: Usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };
  for (const event of events) {
    if (event.type !== "model.answered" || !event.usage) continue;
    usage.input_tokens += event.usage.input_tokens;
    usage.output_tokens += event.usage.output_tokens;
    usage.total_tokens += event.usage.total_tokens;
  }
  const last = events.findLast(isEnding);
  const response: ModelResponse = { output, usage, status: "completed" };
  const isPaused = last?.type === "turn.released" && last.reason === "waiting";
  if (isPaused || next?.type === "client.answered") return { response, status: "completed", error: null };
  if (last?.type === "agent.ended" && last.last) {
    if (!isLimit(last.outcome)) return { response, status: "completed", error: null };
    const reason = last.outcome === "tokens" ? "max_output_tokens" : last.outcome;
    const cut: ModelResponse = { ...response, status: "incomplete", incomplete_details: { reason } };
    return { response: cut, status: "incomplete", error: null };
  }
  const failed = events.findLast((event) => event.type === "agent.failed");
  if (failed && (last?.type === "agent.failed" || last?.type === "turn.released")) {
    return { response, status: "failed", error: failed.error };
  }
  return { response, status: last?.type === "turn.released" ? "cancelled" : "in_progress", error: null };
}
