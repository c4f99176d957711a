// The curves of training runs over their iterations, drawn over each other. They grow while a trainer runs.
import { useState } from "preact/hooks";
import { constantIn, seriesIn, type Curve, type Series } from "../../../../src/rollout/curve-series.ts";
import { shortNumber } from "../../charts/bars.tsx";
import { Curves } from "../../charts/curves.tsx";
import { ask } from "../../data/server.ts";
import { messageOf } from "../../data/source.ts";
import type { Loaded } from "../../data/use-loaded.ts";
import { usePolling } from "../../data/use-polling.ts";
import { usePageContext } from "../../page-context.ts";
import { number, showInvisible } from "../../parts/format.ts";
import { Await, Nothing } from "../../parts/notice.tsx";
import "./training.css";

/** Milliseconds between two readings. */
const readEvery = 5_000;

export function TrainingPage() {
  const { source } = usePageContext();
  const [loaded, setLoaded] = useState<Loaded<Curve[]>>({ state: "loading" });
  usePolling(
    async (signal) => {
      if (!source.isLive) return;
      try {
        const { curves } = await ask<{ curves: Curve[] }>("/v1/curves", { signal });
        setLoaded({ state: "ready", value: curves });
      } catch (thrown) {
        if (!signal.aborted) setLoaded({ state: "failed", message: messageOf(thrown) });
      }
    },
    readEvery,
    [source],
  );
  if (!source.isLive) return <Nothing>The training page needs a server. This page was opened from files.</Nothing>;
  return (
    <>
      <h1>Training</h1>
      <Await loaded={loaded}>{(curves) => <Training curves={curves} />}</Await>
    </>
  );
}

function Training({ curves }: { curves: Curve[] }) {
  const [first] = curves;
  if (!first) return <Nothing>No training run is open.</Nothing>;
  const [changing, constants]: [Series[], string[]] = [[], []];
  for (const series of seriesIn(curves)) {
    const constant = series.name === "reward" ? undefined : constantIn(series);
    if (constant === undefined) changing.push(series);
    else constants.push(`${series.name} ${number(constant)}`);
  }
  return (
    <>
      <table class="training-runs">
        <thead>
          <tr>
            <th>Run</th>
            <th>Iterations</th>
            <th>First reward</th>
            <th>Last reward</th>
          </tr>
        </thead>
        <tbody>
          {curves.map(({ path, points }, at) => (
            <tr key={path}>
              <td>
                <svg class="training-key" width="28" height="8" aria-hidden="true">
                  <g class={`chart-curve chart-curve-${at % 4}`}>
                    <polyline points="0,4 28,4" />
                  </g>
                </svg>{" "}
                {showInvisible(path)}
              </td>
              <td>{points.length}</td>
              <td>{rewardAt(points[0])}</td>
              <td>{rewardAt(points.at(-1))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="said">The charts show each metric over the iterations.</p>
      <p class="said">
        To see episodes, open the session store of a run:{" "}
        <code>npx holdfast view --store {showInvisible(`sqlite:${first.path.replace(/\/$/, "")}/sessions.db`)}</code>
      </p>
      {constants.length > 0 && <p class="said">Equal in all iterations: {showInvisible(constants.join(", "))}.</p>}
      <div class="training-charts">
        {changing.map((series) => (
          <Curves
            key={series.name}
            title={series.name}
            note={`maximum ${number(maximum(series))}`}
            first={series.first}
            shown={shortNumber}
            top={series.name.startsWith("reward") ? 1 : 0}
            curves={series.lines.map((values, at) => ({ name: curves[at]?.path ?? "", values }))}
          />
        ))}
      </div>
    </>
  );
}

const maximum = ({ lines }: Series): number =>
  lines.flat().reduce<number>((most, value) => Math.max(most, value ?? -Infinity), -Infinity);

const rewardAt = (point: Curve["points"][number] | undefined): string =>
  typeof point?.reward === "number" ? number(point.reward) : "-";
