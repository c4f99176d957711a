// Shows the server's current activity and its last minutes.
import { useState } from "preact/hooks";
import { linkTo } from "../../address.ts";
import { usePageContext } from "../../page-context.ts";
import { bytes, number, orDash, seconds } from "../../parts/format.ts";
import { Nothing } from "../../parts/notice.tsx";
import { computeServerMetrics, type ServerMetrics, type Reading } from "./server-metrics.ts";
import "./live.css";
import { RecentSessions } from "./recent-sessions.tsx";
import { Sparkline, type SparklineProps } from "./sparkline.tsx";
import { useMetrics } from "./use-metrics.ts";

/** Five minutes at one reading every two seconds. */
const maxReadings = 150;

interface Seen {
  reading: Reading | undefined;
  metrics: ServerMetrics[];
}

export function LivePage() {
  const { about, source } = usePageContext();
  const [{ metrics }, setSeen] = useState<Seen>({ reading: undefined, metrics: [] });
  const isLost = useMetrics(
    (reading) =>
      setSeen((seen) => ({
        reading,
        metrics: [...seen.metrics, computeServerMetrics(reading, seen.reading)].slice(-maxReadings),
      })),
    source.isLive,
  );
  if (!source.isLive) return <Nothing>The live page needs a server. This page was opened from files.</Nothing>;
  const now = metrics.at(-1);
  return (
    <>
      <div class="row">
        <h1>Live</h1>
        <p role="status" class={isLost ? "warn live-status" : "dim live-status"}>
          {isLost ? "The server does not answer. Trying again…" : now ? "Updated every two seconds." : "Loading…"}
        </p>
      </div>
      {now && <Sparklines metrics={metrics} />}
      {now && <Environments metrics={metrics} now={now} />}
      {about.environments.map((environment) => (
        <RecentSessions key={environment.name} environment={environment} isOnly={about.environments.length === 1} />
      ))}
    </>
  );
}

const perSecond = (value: number): string => `${number(value)}/s`;

function Sparklines({ metrics }: { metrics: ServerMetrics[] }) {
  const each = (of: (metrics: ServerMetrics) => number | null): (number | null)[] => metrics.map(of);
  const all = (of: "calls" | "errors") =>
    each(({ environments }) => {
      const known = environments.map((environment) => environment[of]).filter((value) => value !== null);
      return known.length === 0 ? null : known.reduce((a, b) => a + b, 0);
    });
  const mean = metrics.at(-1)?.commitMean ?? null;
  const lines: SparklineProps[] = [
    { title: "Calls", values: all("calls"), shown: perSecond },
    { title: "Errors", values: all("errors"), shown: perSecond, isBad: true },
    { title: "Commits", values: each(({ commits }) => commits), shown: perSecond },
    { title: "Conflicts", values: each(({ conflicts }) => conflicts), shown: perSecond, isBad: true },
    {
      title: "Store latency",
      values: each(({ commitP99 }) => commitP99),
      shown: seconds,
      note: `p99; mean ${orDash(mean, seconds)}`,
    },
    { title: "Requests open", values: each(({ inflight }) => inflight), shown: number },
    { title: "Streams open", values: each(({ streams }) => streams), shown: number },
    { title: "Event loop lag", values: each(({ lag }) => lag), shown: seconds },
    { title: "Memory", values: each(({ memory }) => memory), shown: bytes },
  ];
  // A server without traffic has no rates yet.
  const known = lines.filter(({ values }) => values.some((value) => value !== null));
  return (
    <div class="live-sparklines">
      {known.map((line) => (
        <Sparkline key={line.title} {...line} />
      ))}
    </div>
  );
}

function Environments({ metrics, now }: { metrics: ServerMetrics[]; now: ServerMetrics }) {
  const line = (name: string): (number | null)[] =>
    metrics.map(({ environments }) => environments.find((known) => known.name === name)?.calls ?? null);
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
              Max calls/s
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
  const { environments, agents } = usePageContext().about;
  if (environments.some((known) => known.name === name)) return <a href={linkTo(["sessions", name])}>{name}</a>;
  const agent = agents.find((known) => `agent:${known.name}` === name);
  if (!agent) return <>{name}</>;
  return (
    <>
      <a href={linkTo(["agents", agent.name])}>{agent.name}</a> <span class="badge">agent</span>
    </>
  );
}
