// The home page: runs, environments with their sessions, and agents.
import { useState } from "preact/hooks";
import type { AgentAbout, EnvironmentAbout, CollectionAbout } from "../../../../src/rollout/collection-view.ts";
import { linkTo } from "../../address.ts";
import { usePageContext } from "../../page-context.ts";
import { count } from "../../parts/format.ts";
import { openSessions } from "../live/server-metrics.ts";
import { useMetrics } from "../live/use-metrics.ts";
import "./home.css";

export function HomePage() {
  const { about, source } = usePageContext();
  const { runs, environments, agents } = about;
  const [open, setOpen] = useState<ReadonlyMap<string, number>>(new Map());
  const hasSessions = environments.length + agents.length > 0;
  useMetrics(({ samples }) => setOpen(openSessions(samples)), source.isLive && hasSessions);
  if (runs.length === 0 && !hasSessions) return <Empty />;
  return (
    <>
      <h1 class="unseen">What there is to look at</h1>
      {runs.length > 0 && <Runs runs={runs} />}
      {environments.length > 0 && (
        <section class="card" aria-labelledby="home-environments">
          <h2 id="home-environments">Environments</h2>
          <ul class="home-list">
            {environments.map((known) => (
              <Entry key={known.name} known={known} to="sessions" open={open.get(known.name)} />
            ))}
          </ul>
        </section>
      )}
      {agents.length > 0 && (
        <section class="card" aria-labelledby="home-agents">
          <h2 id="home-agents">Agents</h2>
          <ul class="home-list">
            {agents.map((known) => (
              <Entry key={known.name} known={known} to="agents" open={open.get(`agent:${known.name}`)} />
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
}

function Entry({ known, to, open }: EntryProps) {
  return (
    <li>
      <a href={linkTo([to, known.name])}>{known.name}</a>
      {open !== undefined && <span class="badge">{count(open, "open session")}</span>}
      {"bare" in known && known.bare && <span class="badge">only its logs: its code is not here</span>}
      {known.description && <span class="dim home-about">{known.description}</span>}
    </li>
  );
}

function Runs({ runs }: { runs: CollectionAbout[] }) {
  const [picked, setPicked] = useState<string[]>([]);
  const [first, second] = picked;
  const pick = (run: string, isPicked: boolean): void => {
    const others = picked.filter((known) => known !== run);
    // At most two: the one selected first is dropped.
    setPicked(isPicked ? [...others, run].slice(-2) : others);
  };
  return (
    <section class="card" aria-labelledby="home-runs">
      <div class="row home-bar">
        <h2 id="home-runs">Runs</h2>
        {runs.length > 1 &&
          (first !== undefined && second !== undefined ? (
            <a href={linkTo(["compare", first, second])}>Compare the two</a>
          ) : (
            <span class="dim">Pick two to compare them.</span>
          ))}
      </div>
      <table class="home-runs">
        <thead>
          <tr>
            {runs.length > 1 && (
              <th scope="col">
                <span class="unseen">Compare</span>
              </th>
            )}
            <th scope="col">Run</th>
            <th scope="col">Environment</th>
            <th scope="col">File</th>
          </tr>
        </thead>
        <tbody>
          {runs.map(({ run, name, file, environment }) => (
            <tr key={run}>
              {runs.length > 1 && (
                <td>
                  <input
                    type="checkbox"
                    aria-label={`Compare ${name}`}
                    checked={picked.includes(run)}
                    onChange={({ currentTarget }) => pick(run, currentTarget.checked)}
                  />
                </td>
              )}
              <td>
                <a href={linkTo(["runs", run])}>{name}</a>
              </td>
              <td>{environment ?? <span class="dim">not known</span>}</td>
              <td class="mono dim">{file}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Empty() {
  return (
    <section class="card home-empty">
      <h1>There is nothing to look at yet</h1>
      <p>Collect some rollouts, then open their file:</p>
      <pre>
        {
          "holdfast collect examples/counter --model scripted --out runs/counter.jsonl\nholdfast view runs/counter.jsonl"
        }
      </pre>
      <p>Or look at the sessions in a store, while they run or after:</p>
      <pre>{"holdfast view --store sqlite:counter.db"}</pre>
    </section>
  );
}
