// Shows the server's current activity and its last minutes.
import { useState } from "preact/hooks";
import { linkTo } from "../../address.ts";
import { useKnown } from "../../known.ts";
import { bytes, number, orDash, seconds } from "../../parts/format.ts";
import { Nothing } from "../../parts/notice.tsx";
import { figuresOf, type Figures, type Reading } from "./figures.ts";
import "./live.css";
import { RecentSessions } from "./recent-sessions.tsx";
import { Trail } from "./trail.tsx";
import { useMetrics } from "./use-metrics.ts";

/** Five minutes at one reading every two seconds. */
const most = 150;

interface Seen {
  reading: Reading | undefined;
  figures: Figures[];
}

export function LivePage() {
  const { about, source } = useKnown();
  const [{ figures }, setSeen] = useState<Seen>({ reading: undefined, figures: [] });
  const isLost = useMetrics(
    (reading) =>
      setSeen((seen) => ({
        reading,
        figures: [...seen.figures, figuresOf(reading, seen.reading)].slice(-most),
      })),
    source.isLive,
  );
  if (!source.isLive) return <Nothing>This page was written to files: there is no server that does anything.</Nothing>;
  const now = figures.at(-1);
  return (
    <>
      <div class="row">
        <h1>Live</h1>
        <p role="status" class={isLost ? "warn live-status" : "dim live-status"}>
          {isLost ? "The server does not answer. Trying again…" : now ? "Asked every two seconds." : "Loading…"}
        </p>
      </div>
      {now && <Trails figures={figures} />}
      {now && <Environments figures={figures} now={now} />}
      {about.environments.map((environment) => (
        <RecentSessions key={environment.name} environment={environment} />
      ))}
    </>
  );
}

const perSecond = (value: number): string => `${number(value)}/s`;

function Trails({ figures }: { figures: Figures[] }) {
  const each = (of: (figures: Figures) => number | null): (number | null)[] => figures.map(of);
  const all = (of: "calls" | "errors") =>
    each(({ environments }) => {
      const known = environments.map((environment) => environment[of]).filter((value) => value !== null);
      return known.length === 0 ? null : known.reduce((a, b) => a + b, 0);
    });
  const mean = figures.at(-1)?.commitMean ?? null;
  return (
    <div class="live-trails">
      <Trail title="Calls" values={all("calls")} shown={perSecond} />
      <Trail title="Errors" values={all("errors")} shown={perSecond} isBad />
      <Trail title="Commits" values={each(({ commits }) => commits)} shown={perSecond} />
      <Trail title="Conflicts" values={each(({ conflicts }) => conflicts)} shown={perSecond} isBad />
      <Trail
        title="Store latency"
        values={each(({ commitP99 }) => commitP99)}

        shown={seconds}
        note={`p99; mean ${orDash(mean, seconds)}`}
      />
      <Trail title="Requests open" values={each(({ inflight }) => inflight)} shown={number} />
      <Trail title="Streams open" values={each(({ streams }) => streams)} shown={number} />
      <Trail title="Event loop lag" values={each(({ lag }) => lag)} shown={seconds} />
      <Trail title="Memory" values={each(({ memory }) => memory)} shown={bytes} />
    </div>
  );
}

function Environments({ figures, now }: { figures: Figures[]; now: Figures }) {
  const line = (name: string): (number | null)[] =>
    figures.map(({ environments }) => environments.find((known) => known.name === name)?.calls ?? null);
  if (now.environments.length === 0) return null;
  return (
    <section class="card live-environments">
      <table>
        <thead>
          <tr>
            <th scope="col">Environment</th>
            <th scope="col" class="num">
              Open sessions
            </th>
            <th scope="col" class="num">
              Calls/s
            </th>
            <th scope="col" class="num">
              Errors/s
            </th>
            <th scope="col" class="num">
              Most calls/s
            </th>
          </tr>
        </thead>
        <tbody>
          {now.environments.map(({ name, open, calls, errors }) => (
            <tr key={name}>
              <th scope="row">
                <Place name={name} />
              </th>
              <td class="num">{orDash(open)}</td>
              <td class="num">{orDash(calls)}</td>
              <td class={`num ${errors ? "bad" : ""}`}>{orDash(errors)}</td>
              <td class="num">{number(line(name).reduce<number>((a, b) => Math.max(a, b ?? 0), 0))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** Names an environment. An agent's conversations are counted under an environment name of their own. */
function Place({ name }: { name: string }) {
  const { environments, agents } = useKnown().about;
  if (environments.some((known) => known.name === name)) return <a href={linkTo(["sessions", name])}>{name}</a>;
  const agent = agents.find((known) => `agent:${known.name}` === name);
  if (!agent) return <>{name}</>;
  return (
    <>
      <a href={linkTo(["agents", agent.name])}>{agent.name}</a> <span class="badge">agent</span>
    </>
  );
}
