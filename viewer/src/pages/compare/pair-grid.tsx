// A table of the tasks of two runs, largest change first.
import { linkTo, setParameters } from "../../address.ts";
import type { NamedRun } from "../../data/references.ts";
import { number, orDash, showInvisible } from "../../parts/format.ts";
import { Grid, type Column } from "../runs/grid.tsx";
import { nextSort, type Sort } from "../runs/sort.ts";
import { Signed } from "./signed.tsx";
import type { Pair } from "./pairs.ts";

export interface PairGridProps {
  runs: [NamedRun, NamedRun];
  /** The start of a task's prompt. */
  promptOf(task: number): string;
  parameters: URLSearchParams;
  pairs: Pair[];
  /** The number of pairs without a filter. */
  all: number;
  sort: Sort | undefined;
  place: { top: number; active: number };
  subject: string;
}

const narrowing = ["change", "difference", "task"];

/** Describes a change. A task without a reward in one run may have failed in that run, or may be absent. */
function describe({ change, rows, failures }: Pair, names: string[]): string {
  if (change === "better" || change === "worse" || change === "same") return change;
  const missing = change === "first" ? 1 : 0;
  const why = rows[missing] === 0 ? "not in" : failures[missing] > 0 ? "failed in" : "no reward in";
  return `${why} ${names[missing]}`;
}

export function PairGrid({ runs, promptOf, parameters, pairs, all, sort, place, subject }: PairGridProps) {
  const names = runs.map(({ name }) => name);
  const path = ["compare", runs[0].link, runs[1].link];
  const at = (index: number): Pair => pairs[index] as Pair;
  const rowsLink = (index: number, which: 0 | 1) => {
    const { task, rows } = at(index);
    if (rows[which] === 0) return "–";
    return (
      <a href={linkTo(["runs", runs[which].link], { task })} tabIndex={-1}>
        {number(rows[which])}
        <span class="unseen">
          {" "}
          rows of task {task} in {names[which]}
        </span>
      </a>
    );
  };
  const columns: Column[] = [
    { name: "task", label: "Task", width: "4.5rem", cell: (index) => at(index).task },
    {
      name: "prompt",
      label: "Prompt",
      width: "minmax(8rem, 4fr)",
      from: 760,
      cell: (index) => <span class="dim">{showInvisible(promptOf(at(index).task))}</span>,
    },
    {
      name: "first",
      label: runs[0].name,
      width: "minmax(4.5rem, 8rem)",
      isNumber: true,
      cell: (index) => orDash(at(index).first),
    },
    {
      name: "second",
      label: runs[1].name,
      width: "minmax(4.5rem, 8rem)",
      isNumber: true,
      cell: (index) => orDash(at(index).second),
    },
    {
      name: "difference",
      label: "Difference",
      width: "minmax(4.5rem, 8rem)",
      isNumber: true,
      cell(index) {
        const { difference } = at(index);
        return difference === null ? "–" : <Signed value={difference} />;
      },
    },
    {
      name: "change",
      label: "Change",
      width: "minmax(6rem, 1.5fr)",
      from: 600,
      cell: (index) => <span class="dim">{describe(at(index), names)}</span>,
    },
    {
      name: "rows-first",
      label: `Rows, ${runs[0].name}`,
      width: "minmax(4rem, 7rem)",
      isNumber: true,
      from: 900,
      cell: (index) => rowsLink(index, 0),
    },
    {
      name: "rows-second",
      label: `Rows, ${runs[1].name}`,
      width: "minmax(4rem, 7rem)",
      isNumber: true,
      from: 900,
      cell: (index) => rowsLink(index, 1),
    },
  ];
  return (
    <>
      <div class="row">
        <h2>Tasks</h2>
        <output class="run-count num" aria-live="polite">
          {number(pairs.length)} of {number(all)}
        </output>
        <button
          disabled={!narrowing.some((name) => parameters.has(name))}
          onClick={() => setParameters(Object.fromEntries(narrowing.map((name) => [name, undefined])), true)}
        >
          Clear filters
        </button>
      </div>
      <Grid
        label="Tasks of both runs"
        count={pairs.length}
        line={(index) => ({
          href: linkTo(path, { ...Object.fromEntries(parameters), task: at(index).task }),
        })}
        {...{ columns, sort, place, subject }}
        onSort={(column) => setParameters({ sort: nextSort(sort, column) }, true)}
      />
    </>
  );
}
