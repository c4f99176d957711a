// The sessions of an environment, open and ended, with their parents.
import { useState } from "preact/hooks";
import type { EnvironmentAbout } from "../../../../src/rollout/collection-view.ts";
import { linkTo, setParameters } from "../../address.ts";
import { usePageContext } from "../../page-context.ts";
import { count, number } from "../../parts/format.ts";
import { Failure, Nothing } from "../../parts/notice.tsx";
import { OpenSession } from "./open-session.tsx";
import { Parent } from "./parent.tsx";
import { withText } from "./session-list.ts";
import { SessionResult, SessionTask } from "./session-about.tsx";
import { SessionTable } from "./session-table.tsx";
import { useSessionList } from "./use-session-list.ts";

export function SessionsPage({ environment: name, parameters }: { environment: string; parameters: URLSearchParams }) {
  const environment = usePageContext().about.environments.find((known) => known.name === name);
  const [isOpening, setOpening] = useState(false);
  if (!environment) return <Failure message={`This server has no environment "${name}".`} />;
  const show = parameters.get("show") ?? "";
  const text = parameters.get("text") ?? "";
  return (
    <>
      <div class="row sessions-bar">
        <div>
          <h1>Sessions of {name}</h1>
          {environment.description && <p class="dim home-about">{environment.description}</p>}
        </div>
        {!environment.bare && (
          <button class="primary" onClick={() => setOpening(true)}>
            Open a session
          </button>
        )}
      </div>
      <div class="row">
        <label>
          Show{" "}
          <select value={show} onChange={({ currentTarget }) => setParameters({ show: currentTarget.value }, true)}>
            <option value="">all</option>
            <option value="open">open</option>
            <option value="ended">ended</option>
          </select>
        </label>
        <label>
          Id{" "}
          <input
            type="search"
            placeholder="part of the id"
            value={text}
            onInput={({ currentTarget }) => setParameters({ text: currentTarget.value }, true)}
          />
        </label>
      </div>
      <List key={show} environment={environment} open={show === "" ? undefined : show === "open"} text={text} />
      {isOpening && <OpenSession environment={environment} onEnd={() => setOpening(false)} />}
    </>
  );
}

interface ListProps {
  environment: EnvironmentAbout;
  open: boolean | undefined;
  text: string;
}

function List({ environment: { at, name }, open, text }: ListProps) {
  const { sessions, isComplete, isHeld, failure, at: now, readMore } = useSessionList(at, { open });
  const rows = withText(sessions, text);
  if (now === 0) return <Nothing>Loading…</Nothing>;
  return (
    <section class="card">
      <p class="row sessions-count">
        <span>
          {rows.length === sessions.length ? "" : `${number(rows.length)} of `}
          {count(sessions.length, "session")}
          {isComplete && sessions.length > 1 ? ", newest first" : ""}
        </span>
        {!isComplete && !isHeld && !failure && <span class="dim">loading more…</span>}
        {isHeld && (
          <>
            <span class="warn">only the oldest sessions are loaded</span>
            <button onClick={readMore}>Load more</button>
          </>
        )}
        {/* Not a live region: the count may change with every poll. */}
        <span class="bad" role="status">
          {failure && `${failure} Trying again…`}
        </span>
      </p>
      {rows.length === 0 ? (
        <Nothing>{sessions.length > 0 ? "No session id contains this text." : "There are no sessions."}</Nothing>
      ) : (
        <SessionTable
          label={`Sessions of ${name}`}
          rows={rows}
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
