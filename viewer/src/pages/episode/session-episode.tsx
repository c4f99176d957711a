// The episode of a live session of a server.
import type { NumberedEvent } from "../../../../src/core/event.ts";
import type { EnvironmentAbout } from "../../../../src/rollout/collection-view.ts";
import { linkTo } from "../../address.ts";
import { usePageContext } from "../../page-context.ts";
import { allEvents } from "../../data/server.ts";
import { CopyButton } from "../../parts/copy-button.tsx";
import { count } from "../../parts/format.ts";
import { preview } from "../../parts/json-rows.ts";
import { Failure, Nothing } from "../../parts/notice.tsx";
import { Episode } from "./episode.tsx";
import { EpisodeHeader, Reward, type Fact } from "./episode-header.tsx";
import { isVerdict } from "./event-kinds.ts";
import { useLog } from "./use-log.ts";

export interface SessionEpisodeProps {
  environment: string;
  session: string;
  parameters: URLSearchParams;
}

export function SessionEpisode({ environment: name, session, parameters }: SessionEpisodeProps) {
  const { source, about } = usePageContext();
  const environment = about.environments.find((known) => known.name === name);
  if (!source.isLive) return <Nothing>Sessions need a server. This page was opened from files.</Nothing>;
  if (!environment) return <Failure message={`This server has no environment ${name}.`} />;
  return <Followed {...{ environment, session, parameters }} />;
}

interface FollowedProps {
  environment: EnvironmentAbout;
  session: string;
  parameters: URLSearchParams;
}

function Followed({ environment, session, parameters }: FollowedProps) {
  const { at, name } = environment;
  const log = useLog((signal) => allEvents(at, session, signal), { at, session }, [at, session]);
  if (log.failure !== undefined) {
    return (
      <>
        <Failure message={log.failure} />
        <a href={linkTo(["sessions", name])}>All sessions of {name}</a>
      </>
    );
  }
  if (!log.events) return <Nothing>Loading…</Nothing>;
  return (
    <Episode {...{ parameters, session, environment, events: log.events, connection: log.connection }}>
      <EpisodeHeader
        title={
          <>
            Session of <a href={linkTo(["sessions", name])}>{name}</a>
          </>
        }
        facts={factsOf(log.events, session, name, log.connection === "ended")}
      />
    </Episode>
  );
}

const endOf = (last: NumberedEvent | undefined): string | undefined =>
  last?.type === "session.closed" ? `ended (${last.reason})` : undefined;

function factsOf(events: NumberedEvent[], session: string, name: string, isOver: boolean): Fact[] {
  const [first] = events;
  const parent = first?.type === "session.opened" ? first.parent : undefined;
  const last = events.at(-1);
  const seed = events.findLast((event) => event.type === "session.seeded");
  const verdict = events.findLast(isVerdict);
  return [
    {
      name: "session",
      value: (
        <>
          <code>{session}</code>
          <CopyButton what="id" text={() => session} />
        </>
      ),
    },
    { name: "status", value: endOf(last) ?? (isOver ? "ended" : "open") },
    { name: "log", value: count(events.length, "event") },
    {
      name: "last reward",
      value: verdict && (
        <>
          <Reward value={verdict.verdict.reward} /> <span class="dim">for version {verdict.judged}</span>
        </>
      ),
    },
    { name: "task", value: seed && <code>{preview(seed.task, 160)}</code> },
    {
      name: "forked from",
      value: parent && (
        <a href={linkTo(["sessions", name, parent.session], { v: parent.version })}>
          <code>{parent.session}</code> at version {parent.version}
        </a>
      ),
    },
  ];
}
