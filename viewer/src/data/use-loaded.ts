// useLoaded(): the value of a promise for a component, or its error.
import { useEffect, useState } from "preact/hooks";
import { messageOf } from "./source.ts";

export type Loaded<T> = { state: "loading" } | { state: "ready"; value: T } | { state: "failed"; message: string };

/** Loads again when a key changes and ignores the result of the previous load. */
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, keys: readonly unknown[]): Loaded<T> {
  const [loaded, setLoaded] = useState<Loaded<T>>({ state: "loading" });
  useEffect(() => {
    const stop = new AbortController();
    setLoaded({ state: "loading" });
    load(stop.signal).then(
      (value) => !stop.signal.aborted && setLoaded({ state: "ready", value }),
      (thrown: unknown) => !stop.signal.aborted && setLoaded({ state: "failed", message: messageOf(thrown) }),
    );
    return () => stop.abort();
  }, keys);
  return loaded;
}
