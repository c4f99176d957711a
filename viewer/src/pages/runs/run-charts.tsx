// The charts of a run. They show all rows; rows outside the filter are pale. Each mark links to its rows.
import { useMemo } from "preact/hooks";
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { linkTo } from "../../address.ts";
import { Bars, type Bar } from "../../charts/bars.tsx";
import { Bubbles } from "../../charts/bubbles.tsx";
import { cellRanges, groupIntoCells, type Cell } from "../../charts/cells.ts";
import { Curves } from "../../charts/curves.tsx";
import { RankBars } from "../../charts/rank-bars.tsx";
import { count, number } from "../../parts/format.ts";
import { histogram, type Bin } from "../../../../src/rollout/metrics/histogram.ts";
import { tokensAndRewards, type RunMetrics } from "./run-metrics.ts";
import { barRange, overlaps, rangeText, readRange } from "./range.ts";

/** With more tasks the bars are too thin to click, so a histogram of task rewards is shown instead. */
const mostTasks = 60;
const [columns, lines] = [24, 10];

export interface RunChartsProps {
  run: string;
  rows: RowSummary[];
  metrics: RunMetrics;
  parameters: URLSearchParams;
}

export function RunCharts({ run, rows, metrics, parameters }: RunChartsProps) {
  const cells = useMemo(() => groupIntoCells(tokensAndRewards(rows), columns, lines), [metrics]);
  const taskBins = useMemo(() => histogram(metrics.means.values()), [metrics]);
  const given = Object.fromEntries(parameters);

  /** Links to the rows of a mark; from a selected mark, back to all rows. */
  const linkOf = (changes: { [name: string]: string | undefined }): { href: string; isShown?: boolean } => {
    const names = Object.keys(changes);
    const isFiltered = names.some((name) => parameters.has(name));
    const isThis = names.every((name) => parameters.get(name) === changes[name]);
    const next = isThis ? Object.fromEntries(names.map((name) => [name, undefined])) : changes;
    const parts = names.map((name) => [readRange(parameters.get(name)), readRange(changes[name])] as const);
    const isShown = isThis || parts.every(([range, part]) => !range || !part || overlaps(range, part));
    return { href: linkTo(["runs", run], { ...given, ...next }), ...(isFiltered && { isShown }) };
  };
  const binBar = (bin: Bin, at: number, bins: Bin[], name: "reward" | "mean", what: string): Bar => {
    const range = barRange(bin, at === bins.length - 1);
    const words = bin.from === bin.to ? number(bin.from) : `${number(bin.from)} to ${number(bin.to)}`;
    return {
      value: bin.count,
      label: number(bin.from, 2),
      name: `Reward ${words}: ${count(bin.count, what)}`,
      ...linkOf({ [name]: rangeText(range) }),
    };
  };
  const taskBars = (): Bar[] =>
    metrics.tasks
      .filter(({ reward }) => reward !== null)
      .sort((a, b) => (b.reward as number) - (a.reward as number) || a.task - b.task)
      .map(({ task, reward, rows: { length } }) => ({
        value: reward as number,
        label: String(task),
        name: `Task ${task}: mean reward ${number(reward as number)} of ${count(length, "row")}`,
        ...linkOf({ task: String(task) }),
      }));
  const cellMark = (cell: Cell) => {
    const { x, y, count: rows } = cell;
    const [tokens, reward] = cellRanges(cell);
    return {
      name: `${number(Math.round(x[0]))} to ${number(Math.round(x[1]))} tokens, reward ${number(y[0])} to ${number(y[1])}: ${count(rows, "row")}`,
      ...linkOf({ tokens: rangeText(tokens), reward: rangeText(reward) }),
    };
  };
  const kindBar = ({ kind, count: rows }: { kind: string; count: number }): Bar => {
    const link = linkOf({ kind: `failed/${kind}` });
    const wanted = parameters.get("kind");
    const isShown = wanted === "failed" || wanted === `failed/${kind}`;
    const label = kind === "" ? "no kind" : kind;
    const name = `${label}: ${count(rows, "failure")}`;
    return { value: rows, label, name, ...link, ...(wanted !== null && { isShown }) };
  };

  return (
    <section class="card run-charts" aria-label="Charts">
      <Bars
        title="Rewards"
        note="rows by reward"
        bars={metrics.rewards.map((bin, at, bins) => binBar(bin, at, bins, "reward", "row"))}
      />
      {metrics.means.size <= mostTasks ? (
        <Bars title="Reward by task" note="the best first" bars={taskBars()} reach={[0, 1]} />
      ) : (
        <Bars
          title="Reward by task"
          note="tasks by mean"
          bars={taskBins.map((bin, at, bins) => binBar(bin, at, bins, "mean", "task"))}
        />
      )}
      <Curves
        title={metrics.isRate ? "pass@k" : "best@k"}
        note={metrics.isRate ? "%, one of k; dashed: all k" : "best of k; dashed: worst of k"}
        top={metrics.isRate ? 100 : 1}
        curves={[
          { name: metrics.isRate ? "One of k" : "Best of k", values: metrics.best },
          { name: metrics.isRate ? "All k" : "Worst of k", values: metrics.worst },
        ]}
      />
      <RankBars title="Failures" note="by kind" bars={metrics.kinds.map(kindBar)} />
      <Bubbles title="Reward" note="against tokens" {...{ cells, columns, lines, mark: cellMark }} />
    </section>
  );
}
