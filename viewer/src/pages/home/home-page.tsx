// The home page: runs, environments with their sessions, and agents.
import { useState } from "preact/hooks";
import type { AgentAbout, EnvironmentAbout } from "../../../../src/rollout/collection-view.ts";
import { linkTo } from "../../address.ts";
import { usePageContext } from "../../page-context.ts";
import { count } from "../../parts/format.ts";
import { openSessions } from "../live/server-metrics.ts";
import { useMetrics } from "../live/use-metrics.ts";
import "./home.css";
import { RunList } from "./run-list.tsx";

export function HomePage() {
  const { about, source } = usePageContext();
  const { runs, environments, agents } = about;
  const [open, setOpen] = useState<ReadonlyMap<string, number>>(new Map());
  const hasSessions = environments.length + agents.length > 0;
  useMetrics(({ samples }) => setOpen(openSessions(samples)), source.isLive && hasSessions);
  if (runs.length === 0 && !hasSessions) return about.hasCurves ? <OnlyTraining /> : <Empty />;
  return (
    <>
      <h1 class="unseen">Holdfast viewer</h1>
      {runs.length > 0 && <RunList runs={runs} />}
      {environments.length > 0 && (
        <section class="card" aria-labelledby="home-environments">
          <h2 id="home-environments">Environments</h2>
          <ul class="home-list">
            {environments.map((known) => (
              <Entry
                key={known.name}
                known={known}
                to="sessions"
                open={open.get(known.name)}
                // Not "open session" for a run: its finished rollouts leave their sessions open, for forks.
                word={runs.some(({ environment }) => environment === known.name) ? "session" : "open session"}
              />
            ))}
          </ul>
        </section>
      )}
      {agents.length > 0 && (
        <section class="card" aria-labelledby="home-agents">
          <h2 id="home-agents">Agents</h2>
          <ul class="home-list">
            {agents.map((known) => (
              <Entry
                key={known.name}
                known={known}
                to="agents"
                open={open.get(`agent:${known.name}`)}
                word="open conversation"
              />
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

interface EntryProps {
  known: AgentAbout | EnvironmentAbout;
  to: "sessions" | "agents";
  open: number | undefined;
  word: string;
}

function Entry({ known, to, open, word }: EntryProps) {
  return (
    <li>
      <a href={linkTo([to, known.name])}>{known.name}</a>
      {open !== undefined && <span class="badge">{count(open, word)}</span>}
      {"bare" in known && known.bare && <span class="badge">read-only: the environment's code is not loaded</span>}
      {known.description && <span class="dim home-about">{known.description}</span>}
    </li>
  );
}

function OnlyTraining() {
  return (
    <section class="card">
      <h1>Training runs</h1>
      <p>
        <a href={linkTo(["training"])}>Training</a> shows the curves of the runs that are open.
      </p>
    </section>
  );
}

function Empty() {
  return (
    <section class="card home-empty">
      <h1>Nothing to show yet</h1>
      <p>Collect rollouts, then open their file:</p>
      <pre>
        {
          "holdfast collect examples/counter --model scripted --out runs/counter.jsonl\nholdfast view runs/counter.jsonl"
        }
      </pre>
      <p>Or open the sessions in a store:</p>
      <pre>{"holdfast view --store sqlite:counter.db"}</pre>
    </section>
  );
}
