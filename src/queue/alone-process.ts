// A process for one rollout whose previous worker died. It runs the rollout that its worker sends, and exits.
import { messageOf } from "../core/errors.ts";
import { surviveStrayErrors } from "../rollout/stray-errors.ts";
import { failedRollout, type Played } from "../core/rollout.ts";
import { endTelemetry } from "../telemetry/process.ts";
import type { AloneRequest } from "./alone.ts";
import { createCollections } from "./collections.ts";
import { startWatchdog } from "../io/watchdog.ts";

const stopping = new AbortController();

surviveStrayErrors();
process.on("disconnect", () => process.exit(1));
// Ctrl-C reaches every process in a terminal. It is ignored, because the worker decides which processes end.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => undefined);
process.once("message", (request) => {
  process.on("message", () => stopping.abort());
  void play(request as AloneRequest);
});

async function play({ collection, rollout, maxBlocked, ...options }: AloneRequest): Promise<void> {
  const parent = process.ppid;
  const collections = createCollections({ ...options, concurrency: 1 });
  const played = await collections
    .openPlayer(collection)
    .then((own) => {
      // The watchdog starts after the code is loaded, because loading takes a while on a busy machine.
      startWatchdog({ maxBlocked, parent });
      return own(rollout, stopping.signal);
    })
    .catch((thrown: unknown): Played => failedRollout(rollout.session, "store", messageOf(thrown)));
  await collections.close();
  await endTelemetry();
  process.send?.(played, () => process.exit(0));
}
