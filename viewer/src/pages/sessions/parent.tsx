// Links a forked session to its parent.
import { linkTo } from "../../address.ts";
import { number } from "../../parts/format.ts";
import type { SessionRow } from "./session-list.ts";

/** Links to the parent session at the version of the fork. */
export function Parent({ row: { parent }, environment }: { row: SessionRow; environment: string }) {
  if (!parent) return <span class="unseen">nothing</span>;
  const { session, version } = parent;
  return (
    <span class="sessions-fork">
      <span class="badge">fork</span>{" "}
      <a href={linkTo(["sessions", environment, session], { v: version })} title={session} class="mono">
        {session.slice(0, 8)}…
      </a>{" "}
      at {number(version)}
    </span>
  );
}
