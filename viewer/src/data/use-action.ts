// useAct(): runs one request per click, never two at a time, and keeps the error of the last request.
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "./source.ts";

export interface Action {
  isBusy: boolean;
  failure: string | undefined;
  /** Does nothing while the previous action runs. */
  start(work: (signal: AbortSignal) => Promise<void>): void;
  /** Aborts the request. The server may already have applied it. */
  cancel(): void;
}

export function useAction(): Action {
  const [state, setState] = useState<{ isBusy: boolean; failure?: string }>({ isBusy: false });
  // A ref, because a second click may arrive before the next render.
  const running = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => running.current?.abort(), []);
  return {
    isBusy: state.isBusy,
    failure: state.failure,
    start(work) {
      if (running.current) return;
      const stop = new AbortController();
      running.current = stop;
      setState({ isBusy: true });
      const end = (failure?: string): void => {
        running.current = undefined;
        setState({ isBusy: false, ...(failure !== undefined && { failure }) });
      };
      work(stop.signal).then(
        () => end(),
        (thrown: unknown) => end(stop.signal.aborted ? "Cancelled." : messageOf(thrown)),
      );
    },
    cancel: () => running.current?.abort(),
  };
}
