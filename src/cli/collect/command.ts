// Runs `holdfast collect`: shows its progress, stops on a signal and prints the summary.
import { collectRollouts, type CollectionResult } from "../../rollout/collect-rollouts.ts";
import type { CollectionSettings } from "../../rollout/collection-settings.ts";
import { assertQueue, queuePlayer } from "../../queue/collector.ts";
import { createProgress, type Progress } from "./progress.ts";
import { summaryOf } from "./summary.ts";

const interrupted = 130;

/** Gives the exit code: 0 if every rollout was scored. */
export async function runCollection(environment: string | undefined, settings: CollectionSettings): Promise<number> {
  assertQueue(settings);
  const json = settings.json ?? false;
  let total = 0;
  const progress = createProgress({ json });
  const { signal, end } = untilStopped(progress, settings);
  try {
    const { metrics, ...collected } = await collectRollouts({
      ...settings,
      environment,
      signal,
      onPlan(planned) {
        total = planned;
        progress.plan(planned);
      },
      onStart: progress.start,
      onRow: progress.row,
      onRetry: progress.retry,
      onFewer(count) {
        total -= count;
        progress.fewer(count);
      },
      ...(settings.queue !== undefined && {
        playerFor: (record) => queuePlayer(environment, settings, record, progress.say),
      }),
    });
    progress.end();
    if (json) process.stdout.write(`${JSON.stringify({ type: "collected", ...collected, metrics })}\n`);
    else process.stdout.write(summaryOf(collected, metrics, { out: settings.out, total }));
    return exitCodeOf(collected);
  } finally {
    end();
    progress.end();
  }
}

function exitCodeOf({ stopped, failed }: Omit<CollectionResult, "metrics">): number {
  if (stopped) return interrupted;
  return failed > 0 ? 1 : 0;
}

/** Aborted by the first signal that asks to stop. The second ends the process. */
function untilStopped(progress: Progress, { queue }: CollectionSettings): { signal: AbortSignal; end(): void } {
  const stopping = new AbortController();
  const stop = (): void => {
    if (stopping.signal.aborted) process.exit(interrupted);
    const what =
      queue === undefined ? "what is under way goes on" : "what workers have begun they end, and it is taken";
    progress.say(`stopping; ${what} with --resume (again to end at once)`);
    stopping.abort();
  };
  process.on("SIGINT", stop).on("SIGTERM", stop);
  return {
    signal: stopping.signal,
    end: () => void process.removeListener("SIGINT", stop).removeListener("SIGTERM", stop),
  };
}
