// usePolling(): repeats a request while the page is visible.
import { useEffect } from "preact/hooks";

/** Starts `work` again `wait` milliseconds after it ended. `work` must not reject. */
export function usePolling(work: (signal: AbortSignal) => Promise<void>, wait: number, keys: readonly unknown[]): void {
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isWorking = false;
    const turn = async (): Promise<void> => {
      clearTimeout(timer);
      if (isWorking || stop.signal.aborted || document.visibilityState === "hidden") return;
      isWorking = true;
      await work(stop.signal);
      isWorking = false;
      if (!stop.signal.aborted) timer = setTimeout(() => void turn(), wait);
    };
    const seen = (): void => void turn();
    document.addEventListener("visibilitychange", seen);
    void turn();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, keys);
}
