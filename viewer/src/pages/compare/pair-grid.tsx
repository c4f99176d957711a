// A table of the tasks of two runs, largest change first.
import { linkTo, setParameters } from "../../address.ts";
import { number, orDash } from "../../parts/format.ts";
import { Grid, type Column } from "../runs/grid.tsx";
import { nextSort, type Sort } from "../runs/sort.ts";
import { Signed } from "./signed.tsx";
import type { Pair } from "./pairs.ts";

export interface PairGridProps {
  runs: [string, string];
  names: [string, string];
  parameters: URLSearchParams;
  pairs: Pair[];
  /** The number of pairs without a filter. */
  all: number;
  sort: Sort | undefined;
  place: { top: number; active: number };
  subject: string;
}

const narrowing = ["change", "difference", "task"];
const words = { better: "better", worse: "worse", same: "same", first: "no reward in", second: "no reward in" };

export function PairGrid({ runs, names, parameters, pairs, all, sort, place, subject }: PairGridProps) {
  const at = (index: number): Pair => pairs[index] as Pair;
  const rowsLink = (index: number, which: 0 | 1) => {
    const { task, rows } = at(index);
    if (rows[which] === 0) return "–";
    return (
      <a href={linkTo(["runs", runs[which]], { task })} tabIndex={-1}>
        {number(rows[which])}
        <span class="unseen">
          {" "}
          rows of task {task} in {names[which]}
        </span>
      </a>
    );
  };
  const columns: Column[] = [
    { name: "task", label: "Task", width: "minmax(4rem, 8rem)", cell: (index) => at(index).task },
    {
      name: "first",
      label: names[0],
      width: "minmax(5rem, 11rem)",
      isNumber: true,
      cell: (index) => orDash(at(index).first),
    },
    {
      name: "second",
      label: names[1],
      width: "minmax(5rem, 11rem)",
      isNumber: true,
      cell: (index) => orDash(at(index).second),
    },
    {
      name: "difference",
      label: "Difference",
      width: "minmax(5rem, 11rem)",
      isNumber: true,
      cell(index) {
        const { difference } = at(index);
        return difference === null ? "–" : <Signed value={difference} />;
      },
    },
    {
      name: "change",
      label: "Change",
      width: "minmax(6rem, 2fr)",
      from: 600,
      cell(index) {
        const { change } = at(index);
        const other = change === "first" ? ` ${names[1]}` : change === "second" ? ` ${names[0]}` : "";
        return <span class="dim">{`${words[change]}${other}`}</span>;
      },
    },
    {
      name: "rows-first",
      label: `Rows, ${names[0]}`,
      width: "minmax(5rem, 13rem)",
      isNumber: true,
      from: 760,
      cell: (index) => rowsLink(index, 0),
    },
    {
      name: "rows-second",
      label: `Rows, ${names[1]}`,
      width: "minmax(5rem, 13rem)",
      isNumber: true,
      from: 760,
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
          Clear
        </button>
      </div>
      <Grid
        label="Tasks of both runs"
        count={pairs.length}
        line={(index) => ({
          href: linkTo(["compare", ...runs], { ...Object.fromEntries(parameters), task: at(index).task }),
        })}
        {...{ columns, sort, place, subject }}
        onSort={(column) => setParameters({ sort: nextSort(sort, column) }, true)}
      />
    </>
  );
}
