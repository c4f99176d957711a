// stopOnSignals(): the first signal asks the process to stop, the second ends it immediately.

/** The exit codes that shells give to processes ended by a signal. */
export const exitCodes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };
export type StopSignal = keyof typeof exitCodes;

export interface Stopping {
  /** Aborts at the first signal. */
  readonly signal: AbortSignal;
  /** Stops listening. */
  end(): void;
}

interface StopOptions {
  /** SIGINT and SIGTERM by default. */
  names?: readonly StopSignal[];
  onStop?: (name: StopSignal) => void;
  /** Runs before the second signal ends the process. */
  onSecond?: () => void;
}

export function stopOnSignals({ names = ["SIGINT", "SIGTERM"], onStop, onSecond }: StopOptions = {}): Stopping {
  const controller = new AbortController();
  const stop = (name: NodeJS.Signals): void => {
    if (controller.signal.aborted) {
      onSecond?.();
      process.exit(exitCodes[name as StopSignal]);
    }
    controller.abort();
    onStop?.(name as StopSignal);
  };
  for (const name of names) process.on(name, stop);
  return {
    signal: controller.signal,
    end() {
      for (const name of names) process.off(name, stop);
    },
  };
}
