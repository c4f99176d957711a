// Shared by commands that listen: the token they need, and their end by a signal.
import { randomBytes } from "node:crypto";
import { isIP } from "node:net";
import { stopOnSignals } from "../io/stop-on-signals.ts";
import type { Serving } from "../server/serve.ts";

/** Returns the given token; without one, a new one if other machines can connect. */
export function tokenFor(host: string, token: string | undefined): string | undefined {
  return token ?? (isLoopback(host) ? undefined : randomBytes(24).toString("base64url"));
}

function isLoopback(host: string): boolean {
  if (host === "localhost") return true;
  const kind = isIP(host);
  return kind === 4 ? host.startsWith("127.") : kind === 6 && host === "::1";
}

/** Closes a server at the first signal, and ends the process. */
export function closeOnSignals(serving: Pick<Serving, "close">): void {
  const close = async (): Promise<void> => {
    try {
      await serving.close();
      process.exit(0);
    } catch (thrown) {
      process.stderr.write(`${String(thrown)}\n`);
      process.exit(1);
    }
  };
  stopOnSignals({ onStop: () => void close() });
}
