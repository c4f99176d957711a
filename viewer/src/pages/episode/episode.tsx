// An episode: the transcript on one side; versions, state and actions on the other.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import type { NumberedEvent } from "../../../../src/core/event.ts";
import type { TaskRow } from "../../../../src/core/rollout.ts";
import type { EnvironmentAbout } from "../../../../src/rollout/collection-view.ts";
import { usePageContext } from "../../page-context.ts";
import type { Connection } from "../../data/events.ts";
import { JsonTree } from "../../parts/json-tree.tsx";
import { Nothing } from "../../parts/notice.tsx";
import { RawTextSwitch } from "../../parts/text-mode.tsx";
import { Actions } from "./actions.tsx";
import { StateAt } from "./state-at.tsx";
import { buildSteps } from "./steps.ts";
import { Timeline } from "./timeline.tsx";
import { Transcript } from "./transcript.tsx";
import { useVersion } from "./use-version.ts";
import "./episode.css";

export interface EpisodeProps {
  /** Shown above the episode. */
  children: ComponentChildren;
  parameters: URLSearchParams;
  /** The row of the run that the episode belongs to, if any. */
  row?: TaskRow;
  session: string | null;
  /** The environment that accepts actions on this session, if any. */
  environment: EnvironmentAbout | undefined;
  events: NumberedEvent[];
  connection: Connection | undefined;
}

export function Episode({ children, parameters, row, session, environment, events, connection }: EpisodeProps) {
  const { source, about } = usePageContext();
  const last = events.length;
  const [version, setVersion, isFollowing] = useVersion(parameters, last);
  const steps = useMemo(() => buildSteps(row, events), [row, events]);
  useArrowKeys(version, setVersion);
  const isEnded = events.at(-1)?.type === "session.closed";
  // The store deletes ended sessions, so no action is possible.
  const isGone = connection === "ended" && !isEnded;
  return (
    <div class="episode">
      <div class="episode-top">
        {children}
        <ConnectionNote connection={connection} isGone={isGone} />
      </div>
      <section class="card episode-said" aria-label="Transcript">
        <div class="row episode-bar">
          <h2>Transcript</h2>
          <RawTextSwitch />
        </div>
        {steps.length === 0 ? (
          <Nothing>This session has no events yet.</Nothing>
        ) : (
          <Transcript
            steps={steps}
            environment={environment?.name}
            version={last > 0 ? version : undefined}
            onVersion={setVersion}
            isFollowing={isFollowing}
          />
        )}
      </section>
      <div class="episode-state">
        {last === 0 ? (
          <section class="card">
            <Nothing>
              The log of this episode was not found, so its states cannot be shown. To see them, pass the collection's
              store with --store.
            </Nothing>
          </section>
        ) : (
          <section class="card episode-versions" aria-label="Versions and state">
            <h2 class="unseen">Versions and state</h2>
            <Timeline events={events} version={version} onVersion={setVersion} />
            <StateAt events={events} version={version} />
          </section>
        )}
        {last > 0 && source.isLive && environment && session !== null && !isGone && (
          <Actions {...{ environment, session, version, last, isEnded, models: about.models }} onVersion={setVersion} />
        )}
        {!source.isLive && (
          <p class="dim episode-note">
            This page was opened from files. To fork, call tools or verify, open the run with holdfast view.
          </p>
        )}
        {row && <RawRow row={row} />}
      </div>
    </div>
  );
}

/** The row as stored in the file: the request, the response and every other field. */
function RawRow({ row }: { row: TaskRow }) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <details class="card" onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}>
      <summary>Row as JSON: request, response and all fields</summary>
      {isOpen && <JsonTree value={row} label="Row" />}
    </details>
  );
}

function ConnectionNote({ connection, isGone }: { connection: Connection | undefined; isGone: boolean }) {
  return (
    <p class="episode-connection" role="status">
      {connection === "lost" && (
        <span class="warn">The connection was lost. Reconnecting… No event will be missed.</span>
      )}
      {isGone && (
        <span class="warn">
          This session has ended, and the server has deleted it. This page shows the events that arrived before.
        </span>
      )}
    </p>
  );
}

/**
 * Moves between versions with the left and right keys, except in fields and elements that use these keys themselves.
 */
function useArrowKeys(version: number, setVersion: (version: number) => void): void {
  // A layout effect, because a reader who sees a version may immediately press a key, and means that version.
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const isTaken =
        event.target instanceof Element && event.target.closest("input, textarea, select, dialog") !== null;
      if (isTaken) return;
      event.preventDefault();
      setVersion(version + (event.key === "ArrowLeft" ? -1 : 1));
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}
