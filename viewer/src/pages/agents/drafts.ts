// The answers that an agent is writing, before they are committed.
import type { NumberedEvent } from "../../../../src/core/event.ts";
import type { Piece } from "../../../../src/core/model.ts";

/** A piece of an answer, as the run streams it. */
export interface PartialEvent {
  type: "partial";
  agent: string;
  /** Identifies one run of the agent. */
  path: string;
  piece: Piece;
  /** Counts the connections of the run. */
  attempt?: number;
}

export interface Draft {
  agent: string;
  path: string;
  attempt: number | undefined;
  thought: string;
  text: string;
  calls: { call: string; tool: string; input: string }[];
}

/**
 * Applies one streamed event to the drafts. A committed event replaces the draft of its path. Only events of the run's
 * own stream may replace a draft. The same event can also arrive later from the log, when the next answer is already
 * being written. After a lost connection, all answers in progress start again.
 */
export function applyStreamed(drafts: readonly Draft[], sent: PartialEvent | NumberedEvent): readonly Draft[] {
  if (!("path" in sent)) return drafts;
  if (sent.type !== "partial") return drafts.filter(({ path }) => path !== sent.path);
  const { agent, path, attempt, piece } = sent;
  const current = drafts.filter((draft) => draft.attempt === attempt);
  const at = current.findIndex((draft) => draft.path === path);
  const known = current[at];
  if (known) return current.with(at, appendPiece(known, piece));
  return [...current, appendPiece({ agent, path, attempt, thought: "", text: "", calls: [] }, piece)];
}

function appendPiece(draft: Draft, piece: Piece): Draft {
  if (piece.type !== "arguments") {
    const field = piece.type === "text" ? "text" : "thought";
    return { ...draft, [field]: draft[field] + piece.text };
  }
  const { call_id: call, name: tool, text } = piece;
  const at = draft.calls.findIndex((made) => made.call === call);
  const known = draft.calls[at];
  if (!known) return { ...draft, calls: [...draft.calls, { call, tool, input: text }] };
  return { ...draft, calls: draft.calls.with(at, { ...known, input: known.input + text }) };
}
