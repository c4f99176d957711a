// An episode: the transcript on one side; versions, state and actions on the other.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo } from "preact/hooks";
import type { NumberedEvent } from "../../../../src/core/event.ts";
import type { TaskRow } from "../../../../src/core/rollout.ts";
import type { EnvironmentAbout } from "../../../../src/rollout/collection-view.ts";
import { usePageContext } from "../../page-context.ts";
import type { Connection } from "../../data/events.ts";
import { Nothing } from "../../parts/notice.tsx";
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
  const [version, setVersion] = useVersion(parameters, last);
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
      <section class="card episode-said" aria-label="What happened">
        <h2 class="unseen">What happened</h2>
        {steps.length === 0 ? (
          <Nothing>Nothing has happened yet.</Nothing>
        ) : (
          <Transcript
            steps={steps}
            environment={environment?.name}
            version={last > 0 ? version : undefined}
            onVersion={setVersion}
          />
        )}
      </section>
      <div class="episode-state">
        {last === 0 ? (
          <section class="card">
            <Nothing>
              The log of this episode is not kept here, so its states are not known. Give the store that it was
              collected with (--store) to see them.
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
            These are files. To fork, call tools or verify again, open the run on a server (holdfast view).
          </p>
        )}
      </div>
    </div>
  );
}

function ConnectionNote({ connection, isGone }: { connection: Connection | undefined; isGone: boolean }) {
  return (
    <p class="episode-connection" role="status">
      {connection === "lost" && (
        <span class="warn">The connection is lost. It is tried again; nothing that happened will be missing.</span>
      )}
      {isGone && (
        <span class="warn">
          This session has ended. The server does not keep it: what is shown is what was seen here.
        </span>
      )}
    </p>
  );
}

/**
 * Moves between versions with the left and right keys, except in fields and elements that use these keys themselves.
 */
function useArrowKeys(version: number, setVersion: (version: number) => void): void {
  // A layout effect, because a reader who sees a version may press a key at once and means that version.
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
