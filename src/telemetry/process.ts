// This process's telemetry: started once, on first use, and stopped with the command.
import type { Telemetry } from "./start.ts";

let started: Promise<Telemetry | undefined> | undefined;

/** Returns undefined if tracing is off. */
export function telemetry(): Promise<Telemetry | undefined> {
  started ??= import("./start.ts").then(({ startTelemetry }) => startTelemetry(process.env));
  return started;
}

/** Sends the remaining spans, within a time limit. Await it before the process ends. */
export async function endTelemetry(): Promise<void> {
  await (await started?.catch(() => undefined))?.stop();
}

/**
 * Ends the process after all output is written. If the output cannot be written, the exit fails; a reader that has left
 * does not count. The exit is forced, because work that ignores its abort signal could keep the process alive for hours.
 */
export async function endProcess(code?: number): Promise<void> {
  await endTelemetry();
  process.stdout.write("", (error) => {
    const { errored } = process.stdout;
    const isLost = [error, errored].some((each) => each && (each as NodeJS.ErrnoException).code !== "EPIPE");
    // The listener for errors of the output reports the reason first.
    if (isLost) setImmediate(() => process.exit(1));
    else process.exit(code ?? process.exitCode);
  });
}
