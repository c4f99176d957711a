// Loads the rows of a run progressively. The last runs stay cached, so that returning from an episode is fast.
import { useEffect, useState } from "preact/hooks";
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { usePageContext } from "../../page-context.ts";
import { messageOf, type Source } from "../../data/source.ts";

/** Wraps one growing array; a new wrapper object tells the page to render again. */
export interface RunRows {
  rows: RowSummary[];
  /** The number of rows when this object was made. */
  count: number;
  isDone: boolean;
  failure?: string;
  /** The reader's position, with the address parameters it belongs to and the indexes of the shown rows. */
  place: { parameters: string; top: number; active: number; shown?: Uint32Array };
}

/** Maximum number of runs in the cache: two, because two runs can be compared. */
const mostKept = 2;
const kept = new WeakMap<Source, Map<string, RunRows>>();

const none = (): RunRows => ({
  rows: [],
  count: 0,
  isDone: false,
  place: { parameters: "", top: 0, active: 0 },
});

/** Returns the rows, and a function that reads them again: a collection may still be running. */
export function useReloadedRows(run: string): [RunRows, () => void] {
  const { source } = usePageContext();
  const [round, setRound] = useState(0);
  const reload = (): void => {
    kept.get(source)?.delete(run);
    setRound(round + 1);
  };
  return [useRows(run, round), reload];
}

export function useRows(run: string, round = 0): RunRows {
  const { source } = usePageContext();
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
      // Renders less often as rows grow, because each render visits all of them.
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
  }, [source, run, round]);
  return known;
}

/** The cached rows of a run, without loading them. */
export const keptRows = (source: Source, run: string): RunRows | undefined => kept.get(source)?.get(run);

function keep(source: Source, run: string, rows: RunRows): void {
  const runs = kept.get(source) ?? new Map<string, RunRows>();
  runs.delete(run);
  runs.set(run, rows);
  const [oldest] = runs.keys();
  if (runs.size > mostKept && oldest !== undefined) runs.delete(oldest);
  kept.set(source, runs);
}
