// useMetrics(): polls the server's metrics.
import { useState } from "preact/hooks";
import { parseMetrics } from "../../data/metrics-text.ts";
import { refusal, request } from "../../data/server.ts";
import { usePolling } from "../../data/use-polling.ts";
import type { Reading } from "./server-metrics.ts";

const [wait, timeout] = [2_000, 5_000];

/** Passes each reading to `take`. Returns whether the last request failed. */
export function useMetrics(take: (reading: Reading) => void, isWanted = true): boolean {
  const [isLost, setLost] = useState(false);
  usePolling(
    async (signal) => {
      if (!isWanted) return;
      try {
        const response = await request("/metrics", {
          signal: AbortSignal.any([signal, AbortSignal.timeout(timeout)]),
        });
        if (!response.ok) throw await refusal(response);
        const samples = parseMetrics(await response.text());
        if (signal.aborted) return;
        take({ at: performance.now(), samples });
        setLost(false);
      } catch {
        if (!signal.aborted) setLost(true);
      }
    },
    wait,
    [isWanted],
  );
  return isLost;
}
