// Compares two runs: which tasks improved and which got worse.
import { useMemo, useState } from "preact/hooks";
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { linkTo } from "../../address.ts";
import { usePageContext } from "../../page-context.ts";
import { number } from "../../parts/format.ts";
import { Failure, Nothing } from "../../parts/notice.tsx";
import { computeRunMetrics, type RunMetrics } from "../runs/run-metrics.ts";
import { readRange } from "../runs/range.ts";
import { Metric, intervalNote } from "../runs/run-summary.tsx";
import { readSort } from "../runs/sort.ts";
import { useRows } from "../runs/use-rows.ts";
import { DifferenceChart } from "./difference-chart.tsx";
import { PairGrid } from "./pair-grid.tsx";
import { pairTasks, shownPairs, type Change, type Paired } from "./pairs.ts";
import { Signed } from "./signed.tsx";
import { TaskRows } from "./task-rows.tsx";
import "../runs/runs.css";
import "./compare.css";

export function ComparePage({ runs, parameters }: { runs: [string, string]; parameters: URLSearchParams }) {
  const { about } = usePageContext();
  const [first, second] = runs.map((run) => about.runs.find((known) => known.run === run));
  if (!first || !second) return <Failure message={`There is no run ${runs[first ? 1 : 0]} here.`} />;
  return <TwoRuns runs={runs} names={[first.name, second.name]} parameters={parameters} />;
}

interface TwoRunsProps {
  runs: [string, string];
  names: [string, string];
  parameters: URLSearchParams;
}

function TwoRuns({ runs, names, parameters }: TwoRunsProps) {
  const [first, second] = [useRows(runs[0]), useRows(runs[1])];
  const isDone = first.isDone && second.isDone;
  // Waits for all rows, because comparing part of a run would be misleading.
  const compared = useMemo(() => {
    if (!isDone) return undefined;
    const [a, b] = [first.rows, second.rows].map((rows) => computeRunMetrics(rows)) as [RunMetrics, RunMetrics];
    return { paired: pairTasks(a.tasks, b.tasks), means: [a.reward, b.reward] };
  }, [first, second]);
  const failure = first.failure ?? second.failure;
  return (
    <div class="run-page">
      <div class="row">
        <h1>
          <a href={linkTo(["runs", runs[0]])}>{names[0]}</a> against <a href={linkTo(["runs", runs[1]])}>{names[1]}</a>
        </h1>
        <span class="run-file" />
        <a href={linkTo(["compare", runs[1], runs[0]])}>The other way round</a>
      </div>
      {failure !== undefined && <Failure message={`Not all rows could be read: ${failure}`} />}
      {compared ? (
        <Compared {...{ runs, names, parameters, ...compared }} rows={[first.rows, second.rows]} />
      ) : (
        <Nothing>
          Reading the rows: {number(first.count)} of the first, {number(second.count)} of the second…
        </Nothing>
      )}
    </div>
  );
}

interface ComparedProps extends TwoRunsProps {
  paired: Paired;
  means: (number | null)[];
  rows: [RowSummary[], RowSummary[]];
}

function Compared({ runs, names, parameters, paired, means, rows }: ComparedProps) {
  const [change, range, sort] = ["change", "difference", "sort"].map((name) => parameters.get(name) ?? "");
  const shown = useMemo(
    () => shownPairs(paired.pairs, { change: change ?? "", difference: readRange(range) }, readSort(sort ?? "")),
    [paired, change, range, sort],
  );
  const [place] = useState({ top: 0, active: 0 });
  const task = parameters.get("task");
  const { comparison, counts } = paired;
  const changes: [Change, string][] = [
    ["better", "Better"],
    ["worse", "Worse"],
    ["same", "Same"],
    ["first", `Only ${names[0]}`],
    ["second", `Only ${names[1]}`],
  ];
  return (
    <>
      <dl class="card run-metrics">
        <Metric
          name="Difference by task"
          note={comparison?.difference ? `95%: ${intervalNote(comparison.difference)}` : ""}
        >
          {comparison?.difference ? <Signed value={comparison.difference.value} /> : "–"}
        </Metric>
        {means.map((mean, at) => (
          <Metric key={at} name={`Mean reward, ${names[at]}`}>
            {mean === null ? "–" : number(mean)}
          </Metric>
        ))}
        {changes.map(([name, label]) => (
          <Metric key={name} name={label}>
            <a
              class="compare-count"
              href={linkTo(["compare", ...runs], {
                ...Object.fromEntries(parameters),
                change: change === name ? undefined : name,
              })}
              aria-current={change === name ? "true" : undefined}
              aria-label={`${label}: ${number(counts[name])}`}
            >
              {number(counts[name])}
            </a>
          </Metric>
        ))}
      </dl>
      {!comparison && <Nothing>These runs have no task in common that has a reward in both of them.</Nothing>}
      {comparison && <DifferenceChart runs={runs} pairs={paired.pairs} parameters={parameters} />}
      {task !== null && (
        <div class="compare-tasks">
          {runs.map((run, at) => (
            <TaskRows key={run} run={run} name={names[at] ?? ""} task={Number(task)} rows={rows[at] ?? []} />
          ))}
        </div>
      )}
      <PairGrid
        {...{ runs, names, place, parameters, pairs: shown, sort: readSort(sort ?? "") }}
        subject={[change, range, sort].join("\n")}
        all={paired.pairs.length}
      />
    </>
  );
}
