// The page of a run: metrics, charts and rows.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import type { Interval } from "../../../../src/rollout/metrics/bootstrap.ts";
import { linkTo } from "../../address.ts";
import type { NamedRun } from "../../data/references.ts";
import { usePageContext } from "../../page-context.ts";
import { Failure, Nothing } from "../../parts/notice.tsx";
import { computeRunMetrics, rewardInterval, type RunMetrics } from "./run-metrics.ts";
import { filterNames, filterRows, readFilter, createSearchTexts } from "./filter.ts";
import { RunCharts } from "./run-charts.tsx";
import { RunSummary } from "./run-summary.tsx";
import { RunFacts } from "./run-facts.tsx";
import { RunFilters } from "./run-filters.tsx";
import { RunGrid } from "./run-grid.tsx";
import { readSort, sortRows } from "./sort.ts";
import { useReloadedRows, type RunRows } from "./use-rows.ts";
import { useSearch } from "./use-search.ts";
import "./runs.css";

export function RunPage({ run, parameters }: { run: NamedRun; parameters: URLSearchParams }) {
  const [known, reload] = useReloadedRows(run.run);
  const { source } = usePageContext();
  return (
    <div class="run-page">
      <div class="row">
        <h1>{run.name}</h1>
        <span class="dim run-file">{run.file}</span>
        {source.isLive && (
          <button title="Read the file again, in case the collection is still running" onClick={reload}>
            Reload rows
          </button>
        )}
        <CompareMenu run={run} />
      </div>
      <RunFacts run={run} />
      {known.failure !== undefined && <Failure message={`Some rows could not be read: ${known.failure}`} />}
      {known.count === 0 && known.failure === undefined && (
        <Nothing>{known.isDone ? "This run has no rows." : "Loading…"}</Nothing>
      )}
      {known.count > 0 && <Rows run={run} known={known} parameters={parameters} />}
    </div>
  );
}

function Rows({ run, known, parameters }: { run: NamedRun; known: RunRows; parameters: URLSearchParams }) {
  const { rows, count, isDone, place } = known;
  const metrics = useRunMetrics(known);
  const textOf = useMemo(() => createSearchTexts(rows), [rows]);
  const sortText = parameters.get("sort");
  const order = useMemo(() => sortRows(rows, readSort(sortText)), [known, sortText]);
  const asked = filterNames.map((name) => parameters.get(name) ?? "").join("\n");
  const filter = useMemo(() => readFilter(parameters), [asked]);
  const search = useSearch(run.run, filter.q);
  const places = useMemo(
    () => filterRows(rows, order, filter, { textOf, found: search.rows, meanOf: (task) => metrics.means.get(task) }),
    [order, filter, search],
  );
  const isFiltered = places.length < order.length;
  // The cards and charts describe the shown rows.
  const shown = useMemo(
    () => (isFiltered ? computeRunMetrics(Array.from(places, (at) => rows[at] as RowSummary)) : metrics),
    [metrics, places, isFiltered],
  );
  const charts = useMemo(
    () => <RunCharts {...{ run, rows, metrics, shown, parameters }} places={isFiltered ? places : undefined} />,
    [metrics, shown, parameters],
  );
  const interval = useDelayedWork(known, shown, textOf);
  const [at] = useState(() => {
    // Restores the position after a return from an episode. Other parameters start at the top.
    if (place.parameters !== parameters.toString()) Object.assign(place, { top: 0, active: 0 });
    return place;
  });
  at.parameters = parameters.toString();
  at.shown = places;
  return (
    <>
      <RunSummary metrics={shown} all={metrics.rows} interval={interval} />
      {charts}
      <RunFilters {...{ parameters, metrics, isDone, count, search, shown: places.length }} />
      <RunGrid
        {...{ run, rows, places, place: at, hasBranches: metrics.hasBranches, metricNames: metrics.metricNames }}
        sort={readSort(sortText)}
        isGrouped={parameters.get("group") === "task"}
        subject={`${asked}\n${sortText}\n${parameters.get("group")}`}
      />
    </>
  );
}

/**
 * Recomputes the metrics each time the rows grow by a quarter. All computations together cost a few times as much as
 * the last one.
 */
function useRunMetrics({ rows, count, isDone }: RunRows): RunMetrics {
  const last = useRef<{ metrics: RunMetrics; isDone: boolean }>(undefined);
  const isStale = !last.current || last.current.isDone !== isDone || count >= last.current.metrics.rows * 1.25;
  if (isStale) last.current = { metrics: computeRunMetrics(rows), isDone };
  return (last.current as { metrics: RunMetrics }).metrics;
}

/** Delays slow work until all rows are loaded and painted: the interval, and the texts of the first search. */
function useDelayedWork({ isDone, rows }: RunRows, { tasks }: RunMetrics, textOf: (at: number) => string) {
  const [interval, setInterval] = useState<Interval>();
  useEffect(() => {
    setInterval(undefined);
    if (!isDone) return undefined;
    const timers = [
      setTimeout(() => setInterval(rewardInterval(tasks)), 100),
      setTimeout(() => textOf(rows.length - 1), 200),
    ];
    return () => timers.forEach(clearTimeout);
  }, [isDone, tasks]);
  return interval;
}

function CompareMenu({ run }: { run: NamedRun }) {
  const others = usePageContext().about.runs.filter((known) => known.run !== run.run);
  if (others.length === 0) return null;
  return (
    <details class="run-menu">
      <summary>Compare with …</summary>
      <ul>
        {others.map((other) => (
          <li key={other.run}>
            <a href={linkTo(["compare", run.link, other.link])}>{other.name}</a> <span class="dim">{other.file}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}
