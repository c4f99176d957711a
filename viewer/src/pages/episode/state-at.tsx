// The event at a version, its changes, and the state after it.
import { useMemo, useState } from "preact/hooks";
import type { NumberedEvent } from "../../../../src/core/event.ts";
import type { Json } from "../../../../src/core/json.ts";
import { messageOf } from "../../data/source.ts";
import { count, short } from "../../parts/format.ts";
import { preview, readablePath } from "../../parts/json-rows.ts";
import { JsonTree } from "../../parts/json-tree.tsx";
import { Failure } from "../../parts/notice.tsx";
import { findChanges, toMarks, type Change } from "./changes.ts";
import { EventCard } from "./event-card.tsx";
import type { History } from "./history.ts";
import { useHistory } from "./use-history.ts";
import "./state-at.css";

export interface StateAtProps {
  /** The whole log so far, in order, as in `Timeline`. */
  events: NumberedEvent[];
  version: number;
  /** Current shared keys (`user:`, `app:`) of a conversation, including keys of other conversations. */
  shared?: { readonly [key: string]: Json };
  /** Whether to leave out the description of the event. */
  isStateOnly?: boolean;
}

interface Shown {
  state: Json;
  changes: Change[];
  isCut: boolean;
}

export function StateAt({ events, version, shared, isStateOnly = false }: StateAtProps) {
  const history = useHistory(events);
  const event = events[version - 1];
  const shown = useMemo(() => shownAt(history, version, event, shared), [history, version, event, shared]);
  const [wanted, setWanted] = useState<{ path: string }>();
  const changes = typeof shown === "string" ? undefined : shown.changes;
  const marks = useMemo(() => changes && toMarks(changes), [changes]);
  if (!event) return null;
  return (
    <div class="state-at">
      {!isStateOnly && <EventCard event={event} />}
      {typeof shown === "string" ? (
        <Failure message={shown} />
      ) : (
        <>
          <Changes {...shown} isFirst={version === 1} onPath={(path) => setWanted({ path })} />
          <section aria-label="State">
            <h3>State after version {version}</h3>
            {shared && Object.keys(shared).length > 0 && (
              <p class="dim state-note">
                Keys that start with user: or app: are shared. For keys that this conversation did not write, the
                current value is shown.
              </p>
            )}
            <JsonTree value={shown.state} label={`State after version ${version}`} {...marks} wanted={wanted} />
          </section>
        </>
      )}
    </div>
  );
}

/** Returns the state and changes at a version, or the error in the log. */
function shownAt(
  history: History,
  version: number,
  event: NumberedEvent | undefined,
  shared: StateAtProps["shared"],
): Shown | string {
  try {
    // The earlier state first: the later one is then one step away.
    const before = history.stateAt(version - 1, shared);
    const state = history.stateAt(version, shared);
    const written = event && "shared" in event ? (event.shared ?? []) : [];
    return { state, ...findChanges(before, state, [...(event?.delta ?? []), ...written]) };
  } catch (thrown) {
    return messageOf(thrown);
  }
}

interface ChangesProps extends Shown {
  isFirst: boolean;
  onPath(path: string): void;
}

const fewChanges = 6;
const signs = { added: "+", replaced: "~", removed: "−" };

function Changes({ changes, isCut, isFirst, onPath }: ChangesProps) {
  const [isAll, setIsAll] = useState(false);
  const some = isAll ? changes : changes.slice(0, fewChanges);
  return (
    <section aria-label="What changed" class="changes">
      <h3>
        What changed{" "}
        <span class="dim">{changes.length > 0 && `${isCut ? "more than " : ""}${count(changes.length, "value")}`}</span>
      </h3>
      {changes.length === 0 && (
        <p class="dim">
          {isFirst ? "There is no state yet." : "Nothing: the state is the same as in the version before."}
        </p>
      )}
      <ul>
        {some.map((change) => (
          <li key={`${change.kind} ${change.path}`} class={change.kind}>
            <span class="changes-sign" title={change.kind} aria-hidden="true">
              {signs[change.kind]}
            </span>
            <span class="unseen">{change.kind}</span>
            <button
              class="quiet changes-path"
              onClick={() => onPath(shownPath(change))}
              title="Show this key in the state"
            >
              {short(readablePath(change.path), 200)}
            </button>
            <span class="changes-values">
              {change.before !== undefined && <del>{preview(change.before, 90)}</del>}
              {change.kind === "replaced" && <span aria-label="becomes"> → </span>}
              {change.after !== undefined && <ins>{preview(change.after, 90)}</ins>}
            </span>
          </li>
        ))}
      </ul>
      {changes.length > fewChanges && (
        <button class="quiet" aria-expanded={isAll} onClick={() => setIsAll(!isAll)}>
          {isAll ? "Show less" : `Show ${isCut ? "the first" : "all"} ${changes.length}`}
        </button>
      )}
    </section>
  );
}

/** The path to show. A removed value is shown at its parent. */
const shownPath = ({ kind, path }: Change): string =>
  kind === "removed" ? path.slice(0, path.lastIndexOf("/")) : path;
