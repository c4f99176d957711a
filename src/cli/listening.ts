// Code for commands that start a server: the access token, listen errors, and shutdown on a signal.
import { randomBytes } from "node:crypto";
import { invalidOption } from "../core/errors.ts";
import { isLoopback } from "../io/loopback.ts";
import { stopOnSignals } from "../io/stop-on-signals.ts";
import type { Serving } from "../server/serve.ts";

/** Returns the given token. Without one, creates a token if other machines can connect, or else returns undefined. */
export function tokenFor(host: string, token: string | undefined): string | undefined {
  return token ?? (isLoopback(host) ? undefined : randomBytes(24).toString("base64url"));
}

/** Explains why a server cannot listen. Other errors are returned unchanged. */
export function explainListen(thrown: unknown, { host, port }: { host: string; port: number }): unknown {
  const { code } = Object(thrown) as { code?: unknown };
  const choose = "choose another --port, or --port 0 for a free one";
  if (code === "EADDRINUSE") return invalidOption(`another program uses port ${port} on ${host}; ${choose}`);
  if (code === "EACCES")
    return invalidOption(`you do not have permission to listen on port ${port} on ${host} (EACCES); ${choose}`);
  if (code === "EADDRNOTAVAIL")
    return invalidOption(`${host} is not an address of this machine; choose another --host`);
  return thrown;
}

/** Closes a server on the first signal, and then ends the process. */
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
