// createAlone(): runs a rollout in its own process, so that a rollout that crashes its process does not affect others.
import { fork } from "node:child_process";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { failedRollout, type Play, type Played } from "../core/rollout.ts";
import { onAbort } from "../io/abort.ts";
import { createPlaces } from "../rollout/places.ts";
import type { CollectionsOptions } from "./collections.ts";
import type { JobData, QueuedCollection } from "./job.ts";
import { mostStopping } from "./playing.ts";
import { blockedSignal } from "../io/watchdog.ts";

export interface AloneOptions extends Omit<CollectionsOptions, "concurrency"> {
  /** Milliseconds that code may block the process. */
  maxBlocked: number;
}

/** Everything that a rollout's process receives. */
export interface AloneRequest extends AloneOptions, JobData {}

/** Maximum number of concurrent processes. Additional rollouts wait. */
const mostAlone = 4;

// The script's name ends in .ts in the source, and in .js in the package.
const entry = fileURLToPath(new URL(`./alone-process${extname(import.meta.url)}`, import.meta.url));

/** Returns a function that creates a collection's player. A failure of kind `worker` says how the process ended. */
export function createAlone(options: AloneOptions): (collection: QueuedCollection) => Play {
  const { enter, leave } = createPlaces(mostAlone).lane(mostAlone);

  return (collection) => async (rollout, signal) => {
    if (!(await enter(signal))) return failedRollout(rollout.session, "internal", "it was cancelled");
    try {
      return await playIn({ ...options, collection, rollout }, signal);
    } finally {
      leave();
    }
  };
}

function playIn(request: AloneRequest, signal: AbortSignal): Promise<Played> {
  return new Promise((resolve) => {
    const child = fork(entry, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    let played: Played | undefined;
    const end = (otherwise: Played): void => {
      stopListening();
      resolve(played ?? otherwise);
    };
    child.on("message", (message) => (played = message as Played));
    const { session } = request.rollout;
    child.on("error", ({ message }) => end(failedRollout(session, "internal", `its process failed: ${message}`)));
    child.on("exit", (code, by) => end(failedRollout(session, "worker", exitText(code, by, request.maxBlocked))));
    const stopListening = onAbort(signal, () => {
      if (child.connected) child.send("stop", () => undefined);
      setTimeout(() => child.kill("SIGKILL"), mostStopping).unref();
    });
    child.send(request, () => undefined);
  });
}

function exitText(code: number | null, by: NodeJS.Signals | null, maxBlocked: number): string {
  if (by === blockedSignal) return `its process was blocked for ${maxBlocked / 1000} s`;
  return by === null ? `its process ended with code ${code}` : `its process was ended by ${by}`;
}
