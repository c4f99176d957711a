// What ends a run from outside: the signals that a process is ended by.

export interface Stopping {
  /** Aborted when the run has to end. */
  readonly signal: AbortSignal;
  /** Listens no longer. */
  end(): void;
}

/** The exit codes that shells give to processes that a signal has ended. */
const codes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };

/** Listens for what ends a run. At a terminal, Ctrl-C is not among it: it ends one answer, or the chat. */
export function createStopping(isChat: boolean): Stopping {
  const controller = new AbortController();
  const names = (["SIGINT", "SIGTERM", "SIGHUP"] as const).filter((name) => name !== "SIGINT" || !isChat);
  const stop = (name: NodeJS.Signals): void => {
    const code = codes[name as keyof typeof codes];
    // What does not end by itself is ended by asking twice.
    if (controller.signal.aborted) process.exit(code);
    process.exitCode = code;
    controller.abort();
  };
  for (const name of names) process.on(name, stop);
  return {
    signal: controller.signal,
    end() {
      for (const name of names) process.off(name, stop);
    },
  };
}
