// The rows of a run as they come. Those of the last runs are kept, so that the way back from an episode is short.
import { useEffect, useState } from "preact/hooks";
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { useKnown } from "../../known.ts";
import { messageOf, type Source } from "../../data/source.ts";

/** One array that grows, and a new object around it whenever the page is to look at it again. */
export interface RunRows {
  rows: RowSummary[];
  /** How many there were when this was said. */
  count: number;
  isDone: boolean;
  failure?: string;
  /** Where the reader was, by the parameters of the address. */
  place: { parameters: string; top: number; active: number };
}

/** Two are compared. */
const mostKept = 2;
const kept = new WeakMap<Source, Map<string, RunRows>>();

const none = (): RunRows => ({
  rows: [],
  count: 0,
  isDone: false,
  place: { parameters: "", top: 0, active: 0 },
});

export function useRows(run: string): RunRows {
  const { source } = useKnown();
  const [known, setKnown] = useState(() => keptRows(source, run) ?? none());
  useEffect(() => {
    if (known.isDone && keptRows(source, run) === known) return;
    const [stop, fresh] = [new AbortController(), none()];
    const { rows } = fresh;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = (more: Partial<RunRows> = {}): void => {
      clearTimeout(timer);
      timer = undefined;
      const next = { ...fresh, count: rows.length, ...more };
      if (next.isDone && next.failure === undefined) keep(source, run, next);
      setKnown(next);
    };
    const take = (more: RowSummary[]): void => {
      if (stop.signal.aborted) return;
      const isFirst = rows.length === 0;
      for (const row of more) rows.push(row);
      if (isFirst) show();
      // The more there are, the longer it takes to look at them all.
      else timer ??= setTimeout(show, 150 + rows.length / 200);
    };
    source.rows(run, take, stop.signal).then(
      () => !stop.signal.aborted && show({ isDone: true }),
      (thrown: unknown) => !stop.signal.aborted && show({ isDone: true, failure: messageOf(thrown) }),
    );
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [source, run]);
  return known;
}

/** What is known of a run that was looked at, without asking for it. */
export const keptRows = (source: Source, run: string): RunRows | undefined => kept.get(source)?.get(run);

function keep(source: Source, run: string, rows: RunRows): void {
  const runs = kept.get(source) ?? new Map<string, RunRows>();
  runs.delete(run);
  runs.set(run, rows);
  const [oldest] = runs.keys();
  if (runs.size > mostKept && oldest !== undefined) runs.delete(oldest);
  kept.set(source, runs);
}
