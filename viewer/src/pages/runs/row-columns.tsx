// The columns of a run's table: values for a row, means and counts for a task.
import type { ComponentChildren } from "preact";
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { count, number, orDash, showInvisible, seconds } from "../../parts/format.ts";
import type { Column } from "./grid.tsx";
import type { TaskGroup } from "./groups.ts";

interface Shown extends Omit<Column, "cell"> {
  row(row: RowSummary): ComponentChildren;
  task(group: TaskGroup): ComponentChildren;
}

const columns: Shown[] = [
  {
    name: "task",
    label: "Task",
    width: "minmax(4.5rem, 0.5fr)",
    row: ({ task }) => orDash(task, String),
    task: ({ task }) => task,
  },
  {
    name: "repeat",
    label: "Repeat",
    width: "4rem",
    isNumber: true,
    from: 560,
    row: ({ repeat }) => orDash(repeat, String),
    task: ({ rows }) => <span class="dim">{count(rows.length, "row")}</span>,
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
    width: "minmax(8.5rem, 1fr)",
    row: (row) => <Outcome row={row} />,
    task: ({ scored, passed, failures }) => (
      <>
        {scored > 0 && passed !== null && <span>{Math.round((100 * passed) / scored)}% pass</span>}
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
    name: "text",
    label: "Text",
    width: "minmax(8rem, 4fr)",
    from: 760,
    row: ({ text }) => <span class="dim">{showInvisible(text)}</span>,
    task: () => "",
  },
];

/** Describes the outcome of a row in a few words. */
export function Outcome({ row: { outcome, kind, stopped, reward } }: { row: RowSummary }) {
  if (outcome === "failed") return <span class="bad">failed{kind === null ? "" : `: ${showInvisible(kind)}`}</span>;
  if (stopped !== null) return <span class="warn">stopped: {stopped}</span>;
  return <span class="dim">{reward === null ? "no reward" : "scored"}</span>;
}

/** `at` returns the row or task of a line. */
export function runColumns(at: (index: number) => RowSummary | TaskGroup, hasBranches: boolean): Column[] {
  return columns
    .filter(({ name }) => name !== "branch" || hasBranches)
    .map(({ row, task, ...column }) => ({
      ...column,
      cell(index) {
        const shown = at(index);
        return "rows" in shown ? task(shown) : row(shown);
      },
    }));
}
