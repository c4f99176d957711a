// The columns of a run's table: values for a row, means and counts for a task.
import type { ComponentChildren } from "preact";
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { number, orDash, percent, showInvisible, seconds } from "../../parts/format.ts";
import type { Column } from "./grid.tsx";
import type { TaskGroup } from "./groups.ts";
import { metricPrefix } from "./sort.ts";

interface Shown extends Omit<Column, "cell"> {
  row(row: RowSummary): ComponentChildren;
  task(group: TaskGroup): ComponentChildren;
}

const columns: Shown[] = [
  {
    name: "task",
    label: "Task",
    width: "minmax(3.2rem, 0.5fr)",
    row: ({ task }) => orDash(task, String),
    task: ({ task }) => task,
  },
  {
    name: "repeat",
    label: "Repeat",
    width: "4rem",
    isNumber: true,
    row: ({ repeat }) => orDash(repeat, String),
    task: ({ rows }) => <span class="dim">× {number(rows.length)}</span>,
  },
  {
    name: "branch",
    label: "Branch",
    width: "minmax(5rem, 0.5fr)",
    from: 560,
    row: ({ branch }) => showInvisible(branch ?? ""),
    task: () => "",
  },
  {
    name: "reward",
    label: "Reward",
    width: "4.2rem",
    isNumber: true,
    row: ({ reward }) => (reward === null ? <span class="dim">–</span> : number(reward)),
    task: ({ reward }) => orDash(reward, number),
  },
  {
    name: "outcome",
    label: "Outcome",
    width: "minmax(6.5rem, 1fr)",
    row: (row) => <Outcome row={row} />,
    task: ({ scored, passed, failures, best }) => (
      <>
        {scored > 0 &&
          (passed === null ? <span>best {orDash(best)}</span> : <span>{percent((100 * passed) / scored)} pass</span>)}
        {failures > 0 && <span class="bad"> {number(failures)} failed</span>}
      </>
    ),
  },
  {
    name: "steps",
    label: "Steps",
    width: "3.4rem",
    isNumber: true,
    from: 400,
    row: ({ steps }) => number(steps),
    task: ({ steps }) => number(steps),
  },
  {
    name: "calls",
    label: "Calls",
    width: "3.4rem",
    isNumber: true,
    from: 720,
    row: ({ calls }) => number(calls),
    task: ({ calls }) => number(calls),
  },
  {
    name: "tokens",
    label: "Tokens",
    width: "5rem",
    isNumber: true,
    from: 480,
    row: ({ tokens }) => orDash(tokens),
    task: ({ tokens }) => orDash(tokens, (value) => number(Math.round(value))),
  },
  {
    name: "time",
    label: "Time",
    width: "4.8rem",
    isNumber: true,
    from: 640,
    row: (row) => orDash(row.seconds, seconds),
    task: (group) => orDash(group.seconds, seconds),
  },
  {
    name: "tools",
    label: "Tools",
    width: "minmax(6rem, 1.4fr)",
    from: 860,
    row: ({ tools }) => <span class="mono">{showInvisible(tools.join(" "))}</span>,
    task: () => "",
  },
  {
    name: "prompt",
    label: "Prompt",
    width: "minmax(8rem, 3fr)",
    from: 1300,
    row: ({ text }) => <span class="dim">{showInvisible(text)}</span>,
    task: () => "",
  },
  {
    name: "text",
    label: "Answer or failure",
    width: "minmax(8rem, 4fr)",
    from: 760,
    row: ({ answer, reason, text }) =>
      reason === null ? <span class="dim">{showInvisible(answer || text)}</span> : <Reason text={reason} />,
    task: () => "",
  },
];

const Reason = ({ text }: { text: string }) => <span class="bad">{showInvisible(text)}</span>;

/** Describes the outcome of a row in a few words. */
function Outcome({ row: { outcome, kind, stopped, reward } }: { row: RowSummary }) {
  if (outcome === "failed") return <span class="bad">failed{kind === null ? "" : `: ${showInvisible(kind)}`}</span>;
  if (outcome === "masked") return <span class="warn">masked</span>;
  if (stopped !== null) return <span class="warn">stopped: {stopped}</span>;
  return <span class="dim">{reward === null ? "no reward" : "scored"}</span>;
}

export interface ColumnOptions {
  rows: readonly RowSummary[];
  hasBranches: boolean;
  /** Names of verify's metrics. */
  metricNames: string[];
  isGrouped: boolean;
}

/** More columns would leave no room for the text. */
const mostMetrics = 4;

/** `at` returns the row or task of a line. */
export function runColumns(at: (index: number) => RowSummary | TaskGroup, options: ColumnOptions): Column[] {
  const { rows, hasBranches, metricNames, isGrouped } = options;
  const promptOf = ({ rows: [first = 0] }: TaskGroup) => showInvisible(rows[first]?.text ?? "");
  const shown = columns
    .filter(({ name }) => (name !== "branch" || hasBranches) && (name !== "prompt" || !isGrouped))
    .map((column) =>
      // In a grouped table a task shows its prompt, and its rows show their answers.
      column.name === "text" && isGrouped ? { ...column, label: "Prompt or answer", task: promptOf } : column,
    );
  const metrics = metricNames.slice(0, mostMetrics).map((name) => metricColumn(name, rows));
  const after = shown.findIndex(({ name }) => name === "outcome") + 1;
  return shown.toSpliced(after, 0, ...metrics).map(({ row, task, ...column }) => ({
    ...column,
    cell(index) {
      const line = at(index);
      return "rows" in line ? task(line) : row(line);
    },
  }));
}

function metricColumn(name: string, rows: readonly RowSummary[]): Shown {
  const valueOf = ({ metrics }: RowSummary): number | undefined =>
    Object.hasOwn(metrics, name) ? metrics[name] : undefined;
  return {
    name: `${metricPrefix}${name}`,
    label: name,
    width: "minmax(4rem, 6.5rem)",
    isNumber: true,
    from: 1000,
    row: (row) => orDash(valueOf(row)),
    task({ rows: places }) {
      const values = places.flatMap((at) => valueOf(rows[at] as RowSummary) ?? []);
      return values.length === 0 ? "–" : number(values.reduce((sum, value) => sum + value, 0) / values.length);
    },
  };
}
