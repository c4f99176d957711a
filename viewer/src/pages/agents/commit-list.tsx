// The events of a conversation in commit order, with the keys that each event stored.
import { useMemo } from "preact/hooks";
import type { NumberedEvent } from "../../../../src/core/event.ts";
import { inForceIn } from "../../../../src/core/session.ts";
import { clock, short } from "../../parts/format.ts";
import { VirtualList } from "../../parts/virtual-list.tsx";
import { commitPoint } from "./commits.ts";

export interface CommitListProps {
  events: NumberedEvent[];
  version: number;
  onVersion(version: number): void;
}

export function CommitList({ events, version, onVersion }: CommitListProps) {
  const inForce = useMemo(() => inForceIn(events), [events]);
  return (
    <VirtualList
      count={events.length}
      height={58}
      isMeasured
      shown={version - 1}
      attributes={{ role: "list", "aria-label": "Commits", class: "chat-commits" }}
    >
      {(index, { key, ...place }) => {
        const event = events[index] as NumberedEvent;
        const { title, note, at, writes, shared } = commitPoint(event);
        const isUndone = !inForce(event.version);
        return (
          <div key={key} {...place} role="listitem" aria-setsize={events.length} aria-posinset={index + 1}>
            <button
              class={`chat-commit ${isUndone ? "chat-taken-back" : ""}`}
              aria-current={event.version === version ? "true" : undefined}
              onClick={() => onVersion(event.version)}
            >
              <span class="num chat-number">{event.version}</span>
              <span class="chat-commit-text">
                <span>
                  <span class="chat-title">{title}</span> {isUndone && <span class="badge">undone</span>}
                </span>
                <Written note={note} writes={writes} shared={shared} />
              </span>
              <span class="dim chat-at">{clock(at)}</span>
            </button>
          </div>
        );
      }}
    </VirtualList>
  );
}

function Written({ note, writes, shared }: { note: string; writes: string[]; shared: string[] }) {
  if (writes.length + shared.length === 0) return note === "" ? null : <span class="dim">{note}</span>;
  return (
    <span class="dim">
      {note} wrote{" "}
      {writes.map((key) => (
        <code key={key} class="chat-key">
          {short(key)}
        </code>
      ))}
      {shared.map((key) => (
        <code
          key={key}
          class="chat-key chat-shared"
          title="Shared with other conversations: a rewind does not change it"
        >
          {short(key)}
        </code>
      ))}
    </span>
  );
}
