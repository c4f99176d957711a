// superviseQueueWorkers(): keeps worker processes running. Replaces dead workers, later after each early death.
import { fork, type ChildProcess } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { stopOnSignals } from "../io/stop-on-signals.ts";
import { blockedSignal } from "../io/watchdog.ts";

export interface SuperviseOptions {
  workers: number;
  /** The worker's script and its arguments. */
  script: string;
  args: readonly string[];
  /** Receives messages for people. */
  say(text: string): void;
}

interface End {
  code: number;
  why: string;
}

interface Started {
  child: ChildProcess;
  /** False if the worker ended before it took work. */
  started: Promise<boolean>;
  ended: Promise<End>;
}

/** Set in the environment of a supervised worker. */
export const supervised = "HOLDFAST_SUPERVISED_WORKER";

/** Milliseconds until a dead worker is replaced. The pause doubles after each worker that died early. */
const shortestPause = 250;
const longestPause = 30_000;
/** Milliseconds after which a worker's death no longer counts as early. */
const longLife = 60_000;

/**
 * Starts the workers and returns when all have ended after a signal. The first worker starts alone: if it cannot start,
 * the process exits with the worker's code.
 */
export async function superviseQueueWorkers({ workers, script, args, say }: SuperviseOptions): Promise<void> {
  const alive = new Set<ChildProcess>();
  const { signal } = stopOnSignals({
    onStop() {
      for (const child of alive) child.kill("SIGTERM");
    },
    onSecond() {
      for (const child of alive) child.kill("SIGKILL");
    },
  });

  function start(): Started {
    const child = fork(script, args, { env: { ...process.env, [supervised]: "1" } });
    alive.add(child);
    const ended = new Promise<End>((resolve) => {
      const end = (code: number, why: string): void => {
        alive.delete(child);
        resolve({ code, why });
      };
      child.on("exit", (code, by) => {
        end(code ?? 1, by === blockedSignal ? "code that this process ran blocked it" : (by ?? `exit code ${code}`));
      });
      // The process could not be started, for example because the system is out of memory.
      child.on("error", (thrown) => end(1, thrown.message));
    });
    const started = new Promise<boolean>((resolve) => {
      child.once("message", () => {
        // The worker may have missed the signal while it started.
        if (signal.aborted) child.kill("SIGTERM");
        resolve(true);
      });
      void ended.then(() => resolve(false));
    });
    return { child, started, ended };
  }

  async function keep(first?: Started): Promise<void> {
    let pause = shortestPause;
    for (let next = first; !signal.aborted; next = undefined) {
      const began = performance.now();
      const { child, ended } = next ?? start();
      const { why } = await ended;
      if (signal.aborted) return;
      pause = performance.now() - began > longLife ? shortestPause : Math.min(2 * pause, longestPause);
      say(`worker process ${child.pid} ended (${why}); a new one starts in ${pause / 1000} s`);
      await delay(pause, undefined, { signal }).catch(() => undefined);
    }
  }

  const first = start();
  if (!(await first.started)) process.exit(signal.aborted ? 0 : (await first.ended).code);
  await Promise.all(Array.from({ length: workers }, (_, at) => keep(at === 0 ? first : undefined)));
}
