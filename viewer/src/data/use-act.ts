// useAct(): something that is asked of the server by a click. Never twice at a time; what went wrong is kept.
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "./source.ts";

export interface Act {
  isBusy: boolean;
  failure: string | undefined;
  /** Does nothing while the last one is under way. */
  start(work: (signal: AbortSignal) => Promise<void>): void;
  /** Takes it back, as far as the server lets it. */
  cancel(): void;
}

export function useAct(): Act {
  const [state, setState] = useState<{ isBusy: boolean; failure?: string }>({ isBusy: false });
  // A second click may come before the page was drawn again.
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
