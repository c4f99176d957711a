// The curves of training runs over their iterations, drawn over each other. They grow while a trainer runs.
import { useState } from "preact/hooks";
import { seriesIn, type Curve } from "../../../../src/rollout/curve-series.ts";
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
  if (curves.length === 0) return <Nothing>There are no training runs.</Nothing>;
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
      <div class="training-charts">
        {seriesIn(curves).map(({ name, first, lines }) => (
          <Curves
            key={name}
            title={name}
            note="over iterations"
            first={first}
            top={name === "reward" ? 1 : 0}
            curves={lines.map((values, at) => ({ name: curves[at]?.path ?? "", values }))}
          />
        ))}
      </div>
    </>
  );
}

const rewardAt = (point: Curve["points"][number] | undefined): string =>
  typeof point?.reward === "number" ? number(point.reward) : "-";
