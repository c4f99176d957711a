// Runs `holdfast collect`: shows its progress, stops on a signal and prints the summary.
import { collectRollouts, type CollectionResult } from "../../rollout/collect-rollouts.ts";
import type { CollectionSettings } from "../../rollout/collection-settings.ts";
import { assertQueue, queuePlayer } from "../../queue/collector.ts";
import { exitCodes, stopOnSignals } from "../../io/stop-on-signals.ts";
import { reportBlockedCollection } from "./blocked.ts";
import { createProgress } from "./progress.ts";
import { formatSummary } from "./summary.ts";

/** Returns the exit code: 0 if every rollout was scored. */
export async function runCollection(
  environment: string | undefined,
  settings: CollectionSettings,
  isDebugged: boolean,
): Promise<number> {
  assertQueue(settings);
  const json = settings.json ?? false;
  let total = 0;
  const progress = createProgress({ json, isQueued: settings.queue !== undefined });
  const { signal, end } = stopOnSignals({
    onStop() {
      const running =
        settings.queue === undefined
          ? "--resume continues the running episodes"
          : "workers finish the running episodes, and --resume uses their results";
      progress.say(`stopping; ${running} (press Ctrl-C again to end at once)`);
    },
  });
  // A queue's workers have their own watchdog.
  const blocked = settings.queue === undefined ? reportBlockedCollection() : undefined;
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
      onRunning: progress.running,
      onEvent(event, rollout) {
        progress.event(event);
        blocked?.event(event, rollout);
      },
      onError: isDebugged ? progress.stack : undefined,
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
    const { out } = settings;
    const reasons = progress.reasons();
    if (json) process.stdout.write(`${JSON.stringify({ type: "collected", ...collected, metrics })}\n`);
    else process.stdout.write(formatSummary(collected, metrics, { out, total, reasons }));
    return toExitCode(collected);
  } finally {
    end();
    blocked?.stop();
    progress.end();
  }
}

function toExitCode({ stopped, gaveUp, failed }: Omit<CollectionResult, "metrics">): number {
  if (stopped && !gaveUp) return exitCodes.SIGINT;
  return failed > 0 ? 1 : 0;
}
