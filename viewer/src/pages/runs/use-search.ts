// useSearch(): the rows whose full text contains the searched text, when they are found.
import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../../data/source.ts";
import { usePageContext } from "../../page-context.ts";

/** A new object is made whenever `rows` has grown. */
export interface Search {
  rows: ReadonlySet<number>;
  isDone: boolean;
  failure?: string;
}

const nothing: Search = { rows: new Set(), isDone: true };

export function useSearch(run: string, text: string): Search {
  const { source } = usePageContext();
  const [search, setSearch] = useState<Search & { text: string }>();
  useEffect(() => {
    if (text === "") return undefined;
    const [stop, rows] = [new AbortController(), new Set<number>()];
    const show = (more: Omit<Search, "rows">): void => {
      if (!stop.signal.aborted) setSearch({ text, rows, ...more });
    };
    const take = (found: number[]): void => {
      for (const row of found) rows.add(row);
      show({ isDone: false });
    };
    source.search(run, text, take, stop.signal).then(
      () => show({ isDone: true }),
      (thrown: unknown) => show({ isDone: true, failure: messageOf(thrown) }),
    );
    return () => stop.abort();
  }, [source, run, text]);
  if (text === "") return nothing;
  return search?.text === text ? search : starting;
}

const starting: Search = { rows: new Set(), isDone: false };
