// Names runs and rows in links. A name stays valid when files are given in another order.
import type { CollectionAbout, RowSummary } from "../../../src/rollout/collection-view.ts";

/** A run with its name in links. */
export interface NamedRun extends CollectionAbout {
  link: string;
}

/** Uses the shortest unique name: the run's name, its file, or else its position. */
export function nameRuns(runs: readonly CollectionAbout[]): NamedRun[] {
  const isUnique = (field: "name" | "file", value: string): boolean =>
    runs.filter((run) => run[field] === value).length === 1;
  return runs.map((run) => {
    const { name, file } = run;
    return { ...run, link: isUnique("name", name) ? name : isUnique("file", file) ? file : run.run };
  });
}

/** Finds a run by its name. Links of earlier versions have its position instead. */
export const findRun = (runs: readonly NamedRun[], link: string): NamedRun | undefined =>
  runs.find((run) => run.link === link) ?? runs.find(({ run }) => run === link);

/** Names a row by its task and repeat, for example "task-3-repeat-1". A row without them is named by its position. */
export function rowName({ row, task, repeat, branch }: Pick<RowSummary, "row" | "task" | "repeat" | "branch">): string {
  if (task === null || repeat === null) return String(row);
  return `task-${task}-repeat-${repeat}${branch === null ? "" : `-branch-${branch}`}`;
}

/** Names every row so that no two rows share a name: of equal names, only the first row keeps it. */
export function createRowNames(): (rows: readonly RowSummary[], row: RowSummary) => string {
  const owners = new Map<string, number>();
  let seen = 0;
  return (rows, row) => {
    for (; seen < rows.length; seen++) {
      const next = rows[seen] as RowSummary;
      const name = rowName(next);
      if (!owners.has(name)) owners.set(name, next.row);
    }
    const name = rowName(row);
    return owners.get(name) === row.row ? name : String(row.row);
  };
}

/** The position that a name consists of; undefined for a name with a task. */
export const rowPosition = (name: string): number | undefined => (/^\d+$/.test(name) ? Number(name) : undefined);
