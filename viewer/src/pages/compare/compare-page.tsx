// Compares two runs: which tasks improved and which got worse.
import { useMemo, useState } from "preact/hooks";
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { linkTo } from "../../address.ts";
import type { NamedRun } from "../../data/references.ts";
import { number } from "../../parts/format.ts";
import { Failure, Nothing } from "../../parts/notice.tsx";
import { computeRunMetrics, type RunMetrics } from "../runs/run-metrics.ts";
import { taskOf } from "../runs/filter.ts";
import { readRange } from "../runs/range.ts";
import { Metric, intervalNote } from "../runs/run-summary.tsx";
import { readSort } from "../runs/sort.ts";
import { useRows } from "../runs/use-rows.ts";
import { DifferenceChart } from "./difference-chart.tsx";
import { PairGrid } from "./pair-grid.tsx";
import { mayBeChance, pairTasks, shownPairs, type Change, type Difference, type Paired } from "./pairs.ts";
import { Signed } from "./signed.tsx";
import { TaskComparison } from "./task-comparison.tsx";
import "../runs/runs.css";
import "./compare.css";

export interface ComparePageProps {
  runs: [NamedRun, NamedRun];
  parameters: URLSearchParams;
}

export function ComparePage({ runs, parameters }: ComparePageProps) {
  const [a, b] = runs;
  const [first, second] = [useRows(a.run), useRows(b.run)];
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
          <a href={linkTo(["runs", a.link])}>{a.name}</a> <span class="dim">compared with</span>{" "}
          <a href={linkTo(["runs", b.link])}>{b.name}</a>
        </h1>
        <span class="run-file" />
        <a href={linkTo(["compare", b.link, a.link])}>Swap the runs</a>
      </div>
      {failure !== undefined && <Failure message={`Some rows could not be read: ${failure}`} />}
      {compared ? (
        <Compared {...{ runs, parameters, ...compared }} rows={[first.rows, second.rows]} />
      ) : (
        <Nothing>
          Reading rows: {number(first.count)} of {a.name}, {number(second.count)} of {b.name}…
        </Nothing>
      )}
    </div>
  );
}

interface ComparedProps extends ComparePageProps {
  paired: Paired;
  means: (number | null)[];
  rows: [RowSummary[], RowSummary[]];
}

function Compared({ runs, parameters, paired, means, rows }: ComparedProps) {
  const names: [string, string] = [runs[0].name, runs[1].name];
  const [change, range, sort] = ["change", "difference", "sort"].map((name) => parameters.get(name) ?? "");
  const shown = useMemo(
    () => shownPairs(paired.pairs, { change: change ?? "", difference: readRange(range) }, readSort(sort ?? "")),
    [paired, change, range, sort],
  );
  const [place] = useState({ top: 0, active: 0 });
  const task = parameters.get("task");
  const { comparison, counts } = paired;
  const changes: [Change, string][] = [
    ["better", `Better in ${names[1]}`],
    ["worse", `Worse in ${names[1]}`],
    ["same", "Same in both"],
    ["first", `Reward only in ${names[0]}`],
    ["second", `Reward only in ${names[1]}`],
  ];
  const promptOf = useMemo(() => createPrompts(rows), [rows]);
  return (
    <>
      <dl class="card run-metrics">
        <Metric
          name="Mean difference by task"
          note={comparison?.difference ? `95%: ${intervalNote(comparison.difference)}` : ""}
        >
          {comparison?.difference ? (
            <Signed value={comparison.difference.value} isPlain={mayBeChance(comparison.difference)} />
          ) : (
            "–"
          )}
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
              href={linkTo(["compare", runs[0].link, runs[1].link], {
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
      {comparison?.difference && <p class="compare-verdict">{verdict(comparison.difference, names)}</p>}
      {!comparison && <Nothing>No task has a reward in both runs.</Nothing>}
      {comparison && <DifferenceChart runs={runs} pairs={paired.pairs} parameters={parameters} />}
      {task !== null && <TaskComparison {...{ runs, parameters, rows }} task={Number(task)} promptOf={promptOf} />}
      <PairGrid
        {...{ runs, place, parameters, promptOf, pairs: shown, sort: readSort(sort ?? "") }}
        subject={[change, range, sort].join("\n")}
        all={paired.pairs.length}
      />
    </>
  );
}

/** Says what the difference means in words. */
function verdict(difference: Difference, [first, second]: [string, string]): string {
  const size = number(Math.abs(difference.value));
  if (difference.value === 0) return `Both runs have the same mean reward.`;
  const way = difference.value > 0 ? "higher" : "lower";
  if (mayBeChance(difference)) {
    return `The mean reward of ${second} is ${size} ${way} than that of ${first}. The 95% interval includes 0, so the difference may be random.`;
  }
  return `The mean reward of ${second} is ${size} ${way} than that of ${first}. The 95% interval excludes 0.`;
}

/** Returns the start of a task's prompt, from the first row of the task in either run. */
function createPrompts(runs: [RowSummary[], RowSummary[]]): (task: number) => string {
  const prompts = new Map<number, string>();
  for (const rows of runs) {
    for (const row of rows) if (row.text !== "" && !prompts.has(taskOf(row))) prompts.set(taskOf(row), row.text);
  }
  return (task) => prompts.get(task) ?? "";
}
