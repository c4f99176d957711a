// The traces of this process: begun once, by whatever part of a command asks first, and ended with the command.
import type { Telemetry } from "./start.ts";

let started: Promise<Telemetry | undefined> | undefined;

/** Undefined where nobody wants traces. */
export function telemetry(): Promise<Telemetry | undefined> {
  started ??= import("./start.ts").then(({ startTelemetry }) => startTelemetry(process.env));
  return started;
}

/** Sends what is left, for a while. To be waited for before the process ends. */
export async function endTelemetry(): Promise<void> {
  await (await started?.catch(() => undefined))?.stop();
}

/** Ends the process when all was said. Not by itself: what was told to stop and does not may keep it for hours. */
export async function endProcess(code?: number): Promise<void> {
  await endTelemetry();
  process.stdout.write("", () => process.exit(code ?? process.exitCode));
}
