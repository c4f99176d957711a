// The rows of one task in one run.
import { useMemo } from "preact/hooks";
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { linkTo } from "../../address.ts";
import { number } from "../../parts/format.ts";
import { taskOf } from "../runs/filter.ts";
import { Outcome } from "../runs/row-columns.tsx";

/** A link leads to the remaining rows. */
const mostShown = 12;

export interface TaskRowsProps {
  run: string;
  name: string;
  task: number;
  rows: RowSummary[];
}

export function TaskRows({ run, name, task, rows }: TaskRowsProps) {
  const found = useMemo(() => rows.filter((row) => taskOf(row) === task), [rows, task]);
  return (
    <section class="card" aria-label={`Task ${task} in ${name}`}>
      <h2>
        Task {task} in <a href={linkTo(["runs", run], { task })}>{name}</a>
      </h2>
      {found.length === 0 && <p class="dim">No rows.</p>}
      <ul class="compare-rows">
        {found.slice(0, mostShown).map((row) => (
          <li key={row.row}>
            <a href={linkTo(["runs", run, row.row])}>row {row.row}</a>{" "}
            <span class="num">{row.reward === null ? "–" : number(row.reward)}</span> <Outcome row={row} />{" "}
            <span class="dim compare-text">{row.text}</span>
          </li>
        ))}
      </ul>
      {found.length > mostShown && (
        <a href={linkTo(["runs", run], { task })}>and {number(found.length - mostShown)} more</a>
      )}
    </section>
  );
}
