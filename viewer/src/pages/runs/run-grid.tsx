// The filtered rows of a run, as a list or grouped by task.
import { useMemo, useState } from "preact/hooks";
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { linkTo, setParameters } from "../../address.ts";
import { createRowNames, type NamedRun } from "../../data/references.ts";
import { Grid, type Line } from "./grid.tsx";
import { foldedLines, groupRows, type TaskGroup } from "./groups.ts";
import { runColumns } from "./row-columns.tsx";
import { nextSort, sortGroups, type Sort } from "./sort.ts";

export interface RunGridProps {
  run: NamedRun;
  rows: RowSummary[];
  /** Indexes of the rows to show, in order. */
  places: Uint32Array;
  sort: Sort | undefined;
  isGrouped: boolean;
  hasBranches: boolean;
  metricNames: string[];
  place: { top: number; active: number };
  subject: string;
}

export function RunGrid(props: RunGridProps) {
  const { run, rows, places, sort, isGrouped, hasBranches, metricNames, place, subject } = props;
  const nameRow = useMemo(createRowNames, [rows]);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const groups = useMemo(
    () => (isGrouped ? sortGroups(groupRows(rows, places), sort) : []),
    [rows, places, sort?.column, sort?.isDown, isGrouped],
  );
  const folded = useMemo(() => (isGrouped ? foldedLines(groups, open) : undefined), [groups, open, isGrouped]);
  const lines = folded ?? places;

  const at = (index: number): RowSummary | TaskGroup => {
    const place = lines[index] as number;
    return (place < 0 ? groups[~place] : rows[place]) as RowSummary | TaskGroup;
  };
  const fold = (task: number): void => {
    const next = new Set(open);
    if (!next.delete(task)) next.add(task);
    setOpen(next);
  };
  const line = (index: number): Line => {
    const shown = at(index);
    if ("rows" in shown) return { toggle: () => fold(shown.task), isOpen: open.has(shown.task), level: 1 };
    return { href: linkTo(["runs", run.link, nameRow(rows, shown)]), ...(isGrouped && { level: 2 }) };
  };
  return (
    <Grid
      label="Rows of the run"
      columns={runColumns(at, { rows, hasBranches, metricNames, isGrouped })}
      count={lines.length}
      {...{ line, sort, place, subject, isTree: isGrouped }}
      onSort={(column) => setParameters({ sort: nextSort(sort, column) }, true)}
    />
  );
}
