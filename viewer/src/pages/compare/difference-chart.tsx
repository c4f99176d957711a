// Changes per task: one bar for each task, or a histogram of changes if there are many tasks.
import { useMemo } from "preact/hooks";
import { histogram } from "../../../../src/rollout/metrics/histogram.ts";
import { linkTo } from "../../address.ts";
import { Bars, type Bar } from "../../charts/bars.tsx";
import type { NamedRun } from "../../data/references.ts";
import { count, number } from "../../parts/format.ts";
import { barRange, overlaps, rangeText, readRange } from "../runs/range.ts";
import type { Pair } from "./pairs.ts";
import { signed } from "./signed.tsx";

const mostTasks = 120;

export interface DifferenceChartProps {
  runs: [NamedRun, NamedRun];
  pairs: Pair[];
  parameters: URLSearchParams;
}

export function DifferenceChart({ runs, pairs, parameters }: DifferenceChartProps) {
  const known = useMemo(() => pairs.filter(({ difference }) => difference !== null), [pairs]);
  const bins = useMemo(() => histogram(known.map(({ difference }) => difference as number)), [known]);
  /** Links to the mark's tasks. The link of a selected mark clears the filter. */
  const linkOf = (name: "task" | "difference", value: string | undefined): string =>
    linkTo(["compare", runs[0].link, runs[1].link], {
      ...Object.fromEntries(parameters),
      [name]: parameters.get(name) === value ? undefined : value,
    });

  const taskBars = (): Bar[] =>
    known
      .toSorted((a, b) => (b.difference as number) - (a.difference as number) || a.task - b.task)
      .map(({ task, difference, first, second }) => {
        const rewards = `${number(first as number)} → ${number(second as number)}`;
        return {
          value: difference as number,
          label: String(task),
          href: linkOf("task", String(task)),
          name: `Task ${task}: mean reward ${rewards} (${signed(difference as number)})`,
          ...(parameters.has("task") && { isShown: parameters.get("task") === String(task) }),
        };
      });
  const binBars = (): Bar[] =>
    bins.map(({ from, to, count: tasks }, at) => {
      const part = barRange({ from, to }, at === bins.length - 1);
      const range = readRange(parameters.get("difference"));
      const words = from === to ? number(from) : `${number(from)} to ${number(to)}`;
      return {
        value: tasks,
        label: number(from, 2),
        href: linkOf("difference", rangeText(part)),
        name: `Mean reward changed by ${words}: ${count(tasks, "task")}`,
        ...(range && { isShown: overlaps(range, part) }),
      };
    });
  return (
    <section class="card" aria-label="Chart">
      {known.length <= mostTasks ? (
        <Bars
          title="Difference by task"
          note={`${runs[1].name} minus ${runs[0].name}, largest gain first`}
          bars={taskBars()}
          height={170}
        />
      ) : (
        <Bars
          title="Difference by task"
          note={`number of tasks by change (${runs[1].name} minus ${runs[0].name})`}
          bars={binBars()}
          height={170}
        />
      )}
    </section>
  );
}
