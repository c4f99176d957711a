// The charts of a run. The shown rows are solid; rows outside the filter are pale. Each mark links to its rows.
import { useMemo } from "preact/hooks";
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { linkTo } from "../../address.ts";
import { Bars, type Bar } from "../../charts/bars.tsx";
import { Bubbles } from "../../charts/bubbles.tsx";
import { cellRanges, groupIntoCells, type Cell } from "../../charts/cells.ts";
import { Curves } from "../../charts/curves.tsx";
import { Chart } from "../../charts/chart.tsx";
import type { NamedRun } from "../../data/references.ts";
import { count, number, percent, showInvisible } from "../../parts/format.ts";
import { histogram, type Bin } from "../../../../src/rollout/metrics/histogram.ts";
import { tokensAndRewards, type ReasonCount, type RunMetrics } from "./run-metrics.ts";
import { barRange, holds, rangeText } from "./range.ts";

/** With more tasks the bars are too thin to click, so a histogram of task rewards is shown instead. */
const mostTasks = 60;
const [columns, lines] = [24, 10];

export interface RunChartsProps {
  run: NamedRun;
  rows: RowSummary[];
  metrics: RunMetrics;
  /** The metrics of the shown rows. */
  shown: RunMetrics;
  /** Indexes of the shown rows; undefined without a filter. */
  places: Uint32Array | undefined;
  parameters: URLSearchParams;
}

export function RunCharts({ run, rows, metrics, shown, places, parameters }: RunChartsProps) {
  const cells = useMemo(() => groupIntoCells(tokensAndRewards(rows), columns, lines, places), [metrics, places]);
  const taskBins = useMemo(() => histogram(metrics.means.values()), [metrics]);
  const rewards = useMemo(
    () => Array.from(places ?? [], (at) => (rows[at] as RowSummary).reward).filter((reward) => reward !== null),
    [places],
  );
  const given = Object.fromEntries(parameters);

  /** Links to the rows of a mark; from a selected mark, back to all rows. */
  const linkOf = (changes: { [name: string]: string | undefined }): { href: string; isShown?: true } => {
    const names = Object.keys(changes);
    const isThis = names.every((name) => parameters.get(name) === (changes[name] ?? null));
    const next = isThis ? Object.fromEntries(names.map((name) => [name, undefined])) : changes;
    return { href: linkTo(["runs", run.link], { ...given, ...next }), ...(isThis && { isShown: true }) };
  };
  const binBar = (bin: Bin, at: number, bins: Bin[], name: "reward" | "mean"): Bar => {
    const range = barRange(bin, at === bins.length - 1);
    const [what, selected] = name === "reward" ? ["row", rewards] : ["task", [...shown.means.values()]];
    const part = places && selected.filter((value) => holds(range, value)).length;
    const words = bin.from === bin.to ? number(bin.from) : `${number(bin.from)} to ${number(bin.to)}`;
    return {
      value: bin.count,
      part,
      label: number(bin.from, 2),
      name: `${name === "reward" ? "Reward" : "Mean reward"} ${words}: ${count(bin.count, what)}${selectedNote(part)}`,
      ...linkOf({ [name]: rangeText(range) }),
    };
  };
  const taskBars = (): Bar[] =>
    metrics.tasks
      .filter(({ reward }) => reward !== null)
      .sort((a, b) => (b.reward as number) - (a.reward as number) || a.task - b.task)
      .map(({ task, reward, rows: { length } }) => ({
        value: reward as number,
        part: places && (shown.means.get(task) ?? 0),
        label: String(task),
        name: `Task ${task}: mean reward ${number(reward as number)} over ${count(length, "row")}`,
        ...linkOf({ task: String(task) }),
      }));
  const cellMark = (cell: Cell) => {
    const { x, y, count: rows, selected } = cell;
    const [tokens, reward] = cellRanges(cell);
    return {
      name: `${number(Math.round(x[0]))} to ${number(Math.round(x[1]))} tokens, reward ${number(y[0])} to ${number(y[1])}: ${count(rows, "row")}${selectedNote(places && selected)}`,
      ...linkOf({ tokens: rangeText(tokens), reward: rangeText(reward) }),
    };
  };
  const curves = shown.isRate
    ? { title: "pass@k", note: "solid: any of k passes; dashed: all k pass", names: ["Any of k passes", "All k pass"] }
    : { title: "best@k", note: "solid: best of k; dashed: worst of k", names: ["Best of k", "Worst of k"] };

  return (
    <section
      class={`card run-charts ${metrics.failed === 0 ? "run-charts-4" : ""}`}
      aria-label="Charts"
      // Scrolls sideways on a narrow page, so the keyboard must reach it.
      tabIndex={0}
    >
      <Bars
        title="Rewards"
        note="number of rows by reward"
        bars={metrics.rewards.map((bin, at, bins) => binBar(bin, at, bins, "reward"))}
      />
      {metrics.means.size <= mostTasks ? (
        <Bars title="Mean reward by task" note="highest first" bars={taskBars()} reach={[0, 1]} />
      ) : (
        <Bars
          title="Mean reward by task"
          note="number of tasks by mean reward"
          bars={taskBins.map((bin, at, bins) => binBar(bin, at, bins, "mean"))}
        />
      )}
      <Curves
        title={curves.title}
        note={curves.note}
        top={shown.isRate ? 100 : 1}
        shown={shown.isRate ? percent : number}
        curves={[
          { name: curves.names[0] ?? "", values: shown.best },
          { name: curves.names[1] ?? "", values: shown.worst },
        ]}
      />
      {metrics.failed > 0 && <Failures reasons={shown.reasons} linkOf={linkOf} />}
      <Bubbles title="Reward by tokens" {...{ cells, columns, lines, mark: cellMark }} />
    </section>
  );
}

const selectedNote = (part: number | undefined): string => (part === undefined ? "" : `, ${number(part)} shown`);

interface FailuresProps {
  reasons: ReasonCount[];
  linkOf(changes: { [name: string]: string }): { href: string; isShown?: true };
}

/** Maximum number of listed reasons. More are rare, and the filter lists every kind of failure. */
const mostReasons = 30;

/** The reasons of failures with their counts. Each links to its rows. */
function Failures({ reasons, linkOf }: FailuresProps) {
  const list = () => (
    <ul class="chart-list" tabIndex={0} aria-label="Failures by reason">
      {reasons.slice(0, mostReasons).map(({ kind, group, reason, count: rows }) => {
        const { href, isShown } = linkOf({ kind: `failed/${kind}`, reason: group });
        const text = `${kind === "" ? "unknown" : kind}: ${showInvisible(reason)}`;
        return (
          <li key={href}>
            <a href={href} title={text} aria-current={isShown}>
              <b class="num bad">{number(rows)}</b> <span>{text}</span>
            </a>
          </li>
        );
      })}
    </ul>
  );
  return (
    <Chart title="Failures" note="by reason">
      {reasons.length > 0 ? list : undefined}
    </Chart>
  );
}
