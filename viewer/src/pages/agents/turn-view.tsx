// One turn of a conversation: the message and everything the agents said and did in response.
import type { Json } from "../../../../src/core/json.ts";
import { clock, count, seconds, showInvisible, short } from "../../parts/format.ts";
import { formatForReading } from "../../parts/json-rows.ts";
import { LongText } from "../../parts/long-text.tsx";
import { ThrownView } from "../episode/thrown-view.tsx";
import type { Draft } from "./drafts.ts";
import type { Call, Entry, Turn } from "./turns.ts";

export interface TurnViewProps {
  turn: Turn;
  /** The agent that answers by default. At its entries, only a screen reader gets its name. */
  agent: string;
  onVersion(version: number): void;
  /** Absent if the session cannot be rewound to this turn. */
  onRewind?: (() => void) | undefined;
}

export function TurnView({ turn, agent, onVersion, onRewind }: TurnViewProps) {
  const entries = turn.entries.map((entry, at) => (
    <EntryView key={at} entry={entry} agent={agent} onVersion={onVersion} />
  ));
  if (turn.isUndone) {
    const [first] = turn.entries;
    return (
      <details class="chat-turn chat-undone">
        <summary>Undone: {short(first?.kind === "said" ? first.text : "a turn", 60)}</summary>
        {entries}
      </details>
    );
  }
  return (
    <section class="chat-turn" aria-label={`Turn at ${clock(turn.at)}`}>
      <div class="row chat-turn-bar">
        <span class="dim">
          {clock(turn.at)}
          {turn.seconds !== undefined && ` · ${seconds(turn.seconds)}`}
          {turn.tokens > 0 && ` · ${count(turn.tokens, "token")}`}
        </span>
        {turn.outcome !== undefined && turn.outcome !== "answered" && <span class="badge">{turn.outcome}</span>}
        {onRewind && (
          <button class="quiet" onClick={onRewind}>
            Rewind to before this turn
          </button>
        )}
      </div>
      {entries}
    </section>
  );
}

function EntryView({ entry, agent, onVersion }: { entry: Entry; agent: string; onVersion(version: number): void }) {
  const by = entry.agent === undefined ? "You" : entry.agent;
  return (
    <div class={`chat-entry ${entry.agent === undefined ? "chat-user" : ""} ${entry.isInner ? "chat-inner" : ""}`}>
      <p class="chat-by">
        <span class={entry.agent === agent ? "unseen" : ""}>{by}</span>
        <button
          class="quiet chat-version"
          onClick={() => onVersion(entry.version)}
          title={`Show the state after version ${entry.version}`}
          aria-label={`v${entry.version}: show the state after this version`}
        >
          v{entry.version}
        </button>
      </p>
      <Content entry={entry} />
    </div>
  );
}

function Content({ entry }: { entry: Entry }) {
  switch (entry.kind) {
    case "said":
      return <LongText text={entry.text} lines={60} isMarkdown />;
    case "thought":
      return (
        <details class="chat-fold">
          <summary class="dim">Reasoning</summary>
          <LongText text={entry.text} lines={60} isMarkdown />
        </details>
      );
    case "call":
      return <CallView call={entry} isDraft={false} />;
    case "failed":
      return (
        <>
          <p class="bad chat-failed">
            The step “{entry.step}” failed: {showInvisible(entry.message)} <code>{entry.code}</code>
          </p>
          {entry.thrown && <ThrownView thrown={entry.thrown} />}
        </>
      );
    case "handed over":
      return <p class="dim chat-failed">handed over to {short(entry.to)}</p>;
    case "other":
      return (
        <details class="chat-fold">
          <summary class="dim">{short(entry.type)}</summary>
          <LongText text={formatForReading(entry.item as unknown as Json)} />
        </details>
      );
    default:
      return entry satisfies never;
  }
}

function CallView({ call, isDraft }: { call: Omit<Call, "kind">; isDraft: boolean }) {
  const { tool, input, output, error, thrown } = call;
  const status = error ? "failed" : output === undefined ? "no output yet" : "";
  return (
    <details class="chat-fold chat-call">
      <summary>
        <span class="chat-tool">{short(tool)}</span> <code class="dim">{short(input, 60)}</code>{" "}
        {!isDraft && status !== "" && <span class={`badge ${error ? "bad" : ""}`}>{status}</span>}
      </summary>
      <h4>Input</h4>
      <LongText text={formatForReading(input)} />
      {error && (
        <>
          <h4>Error</h4>
          <p class="bad chat-failed">
            {showInvisible(error.message)} <code>{error.code}</code>
          </p>
          {thrown && <ThrownView thrown={thrown} />}
        </>
      )}
      {output !== undefined && (
        <>
          <h4>Output</h4>
          <LongText text={formatForReading(output)} />
        </>
      )}
    </details>
  );
}

/** Shows an answer that is being written. A screen reader reads it only when it is complete. */
export function DraftView({ draft: { agent, thought, text, calls } }: { draft: Draft }) {
  return (
    <div class="chat-entry chat-draft" aria-live="off">
      <p class="chat-by dim">{agent} is writing…</p>
      {thought !== "" && text === "" && <p class="dim chat-failed">{short(thought.slice(-200), 200)}</p>}
      {text !== "" && <LongText text={text} lines={200} isMarkdown />}
      {calls.map((call) => (
        <CallView key={call.call} call={call} isDraft />
      ))}
    </div>
  );
}
