// The sessions of an environment with the most recent activity.
import type { EnvironmentAbout } from "../../../../src/rollout/collection-view.ts";
import { linkTo } from "../../address.ts";
import { Nothing } from "../../parts/notice.tsx";
import { Parent } from "../sessions/parent.tsx";
import { SessionResult, SessionTask } from "../sessions/session-about.tsx";
import { SessionTable } from "../sessions/session-table.tsx";
import { useSessionList } from "../sessions/use-session-list.ts";

/** Reads only the newest pages, because polling all sessions would cost too much. */
const [mostPages, mostShown] = [2, 50];

export interface RecentSessionsProps {
  environment: EnvironmentAbout;
  /** Whether this is the only environment. Its list is shown even if it is empty. */
  isOnly: boolean;
}

export function RecentSessions({ environment: { name, at }, isOnly }: RecentSessionsProps) {
  const { sessions, failure, at: now, isComplete } = useSessionList(at, { mostPages });
  const recent = sessions.toSorted((a, b) => b.touched - a.touched).slice(0, mostShown);
  if (!isOnly && recent.length === 0 && !failure) return null;
  return (
    <section class="card live-recent">
      <div class="row">
        <h2>Recent sessions of {name}</h2>
        <a href={linkTo(["sessions", name])}>All sessions</a>
        {now > 0 && !isComplete && !failure && <span class="dim">loading…</span>}
        {failure && <span class="bad">{failure}</span>}
      </div>
      {now > 0 && recent.length === 0 && !failure && <Nothing>There are no sessions yet.</Nothing>}
      {recent.length > 0 && (
        <SessionTable
          label={`Sessions of ${name} with the most recent activity`}
          rows={recent}
          now={now}
          link={({ session }) => linkTo(["sessions", name, session])}
          title={{ heading: "Task", cell: (row) => <SessionTask at={at} row={row} /> }}
          result={{ heading: "Reward", cell: (row) => <SessionResult at={at} row={row} /> }}
          last={{ heading: "Forked from", cell: (row) => <Parent row={row} environment={name} /> }}
        />
      )}
    </section>
  );
}
