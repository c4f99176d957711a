// The list of runs: model, rewards, failures, date and duration, with search and sort.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { CollectionTotals } from "../../../../src/rollout/collection-view.ts";
import { linkTo } from "../../address.ts";
import type { NamedRun } from "../../data/references.ts";
import { usePageContext } from "../../page-context.ts";
import { count, date, number, orDash, seconds } from "../../parts/format.ts";
import { sortedPlaces, nextSort, readSort, type Key } from "../runs/sort.ts";

/** A run with its totals; undefined until they are read. */
export interface ListedRun extends NamedRun {
  totals: CollectionTotals | undefined;
}

interface RunColumn {
  name: string;
  label: string;
  isNumber?: true;
  key(run: ListedRun): Key;
  cell(run: ListedRun): ComponentChildren;
}

const total = (
  name: string,
  label: string,
  key: (totals: CollectionTotals) => number | null,
  shown: (value: number) => string = number,
): RunColumn => ({
  name,
  label,
  isNumber: true,
  key: ({ totals }) => (totals ? key(totals) : null),
  cell: ({ totals }) => (totals ? orDash(key(totals), shown) : <span class="dim">…</span>),
});

const columns: RunColumn[] = [
  {
    name: "name",
    label: "Run",
    key: ({ name }) => name,
    cell: ({ name, link, file }) => (
      <a href={linkTo(["runs", link])} title={file}>
        {name}
      </a>
    ),
  },
  total("reward", "Mean reward", ({ reward }) => reward),
  { name: "model", label: "Model", key: ({ model }) => model, cell: ({ model }) => model ?? <Unknown /> },
  {
    name: "environment",
    label: "Environment",
    key: ({ environment }) => environment,
    cell: ({ environment }) => environment ?? <Unknown />,
  },
  total("rollouts", "Rollouts", ({ rollouts }) => rollouts),
  total("tasks", "Tasks", ({ tasks }) => tasks),
  {
    ...total("failed", "Failures", ({ failed }) => failed),
    cell: ({ totals }) => <span class={totals?.failed ? "bad" : "dim"}>{totals ? number(totals.failed) : "…"}</span>,
  },
  total("began", "Date", ({ began }) => began, date),
  total("duration", "Duration", ({ wallSeconds }) => wallSeconds, seconds),
];

const Unknown = () => <span class="dim">unknown</span>;

/** Returns the runs whose name, model, environment or file contains the text, in the wanted order. */
function listRuns(runs: readonly ListedRun[], text: string, sort: string | undefined): ListedRun[] {
  const wanted = text.trim().toLowerCase();
  const found = runs.filter(({ name, model, environment, file }) =>
    [name, model, environment, file].some((field) => field?.toLowerCase().includes(wanted)),
  );
  const { column, isDown = false } = readSort(sort ?? null) ?? {};
  const key = columns.find(({ name }) => name === column)?.key;
  return Array.from(sortedPlaces(found, key, isDown), (at) => found[at] as ListedRun);
}

export function RunList({ runs }: { runs: NamedRun[] }) {
  const totals = useTotals(runs);
  const [text, setText] = useState("");
  const [sort, setSort] = useState<string>();
  const [picked, setPicked] = useState<string[]>([]);
  const [first, second] = picked;
  const canCompare = runs.length > 1;
  const shown = listRuns(
    runs.map((run) => ({ ...run, totals: totals.get(run.run) })),
    text,
    sort,
  );
  const pick = (run: string, isPicked: boolean): void => {
    const others = picked.filter((known) => known !== run);
    // At most two runs: the run that was selected first is dropped.
    setPicked(isPicked ? [...others, run].slice(-2) : others);
  };
  const now = readSort(sort ?? null);
  return (
    <section class="card" aria-labelledby="home-runs">
      <div class="row home-bar">
        <h2 id="home-runs">{count(runs.length, "run")}</h2>
        {canCompare && (
          <label>
            <span class="unseen">Search runs</span>
            <input
              type="search"
              placeholder="Search by name, model or file"
              value={text}
              onInput={({ currentTarget }) => setText(currentTarget.value)}
            />
          </label>
        )}
        {canCompare &&
          (first !== undefined && second !== undefined ? (
            <a class="home-compare" href={linkTo(["compare", first, second])}>
              Compare the two runs
            </a>
          ) : (
            <span class="dim home-compare">Select two runs to compare them.</span>
          ))}
      </div>
      <div class="home-scroll" tabIndex={0} role="region" aria-label="Runs">
        <table class="home-runs">
          <thead>
            <tr>
              {canCompare && (
                <th scope="col">
                  <span class="unseen">Compare</span>
                </th>
              )}
              {columns.map(({ name, label, isNumber }) => {
                const way = now?.column === name ? (now.isDown ? "descending" : "ascending") : undefined;
                return (
                  <th key={name} scope="col" aria-sort={way ?? "none"} class={isNumber ? "num" : undefined}>
                    <button class="home-sort" onClick={() => setSort(nextSort(now, name))}>
                      {label}
                      <span aria-hidden="true">{way === undefined ? "" : way === "ascending" ? " ▲" : " ▼"}</span>
                    </button>
                  </th>
                );
              })}
            </tr>
          </thead>
          <tbody>
            {shown.map((run) => (
              <tr key={run.run}>
                {canCompare && (
                  <td>
                    <input
                      type="checkbox"
                      aria-label={`Compare ${run.name}`}
                      checked={picked.includes(run.link)}
                      onChange={({ currentTarget }) => pick(run.link, currentTarget.checked)}
                    />
                  </td>
                )}
                {columns.map(({ name, isNumber, cell }) => (
                  <td key={name} class={isNumber ? "num" : undefined}>
                    {cell(run)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown.length === 0 && <p class="notice">No run matches the search.</p>}
    </section>
  );
}

/** Reads the totals one run after the other, because the totals of a run need its whole file. */
function useTotals(runs: NamedRun[]): ReadonlyMap<string, CollectionTotals> {
  const { source } = usePageContext();
  const [totals, setTotals] = useState<ReadonlyMap<string, CollectionTotals>>(new Map());
  useEffect(() => {
    let isGone = false;
    const read = async (): Promise<void> => {
      for (const { run } of runs) {
        if (isGone) return;
        const found = await source.totals(run).catch(() => undefined);
        if (found && !isGone) setTotals((known) => new Map(known).set(run, found));
      }
    };
    void read();
    return () => void (isGone = true);
  }, [runs, source]);
  return totals;
}
