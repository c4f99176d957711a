// What the commands that listen have in common: when a token is needed, and how they end.
import { randomBytes } from "node:crypto";
import { isIP } from "node:net";
import type { Serving } from "../server/serve.ts";

/** The token that was given; without one a new one, where others than this machine can ask. */
export function tokenFor(host: string, token: string | undefined): string | undefined {
  return token ?? (isLoopback(host) ? undefined : randomBytes(24).toString("base64url"));
}

function isLoopback(host: string): boolean {
  if (host === "localhost") return true;
  const kind = isIP(host);
  return kind === 4 ? host.startsWith("127.") : kind === 6 && host === "::1";
}

/** Closes a server at the first signal, and ends the process. At the second it ends at once. */
export function closeOnSignals(serving: Pick<Serving, "close">): void {
  let stopping = false;
  const stop = (): void => {
    if (stopping) process.exit(130);
    stopping = true;
    void serving.close().then(
      () => process.exit(0),
      (thrown: unknown) => {
        process.stderr.write(`${String(thrown)}\n`);
        process.exit(1);
      },
    );
  };
  process.on("SIGTERM", stop).on("SIGINT", stop);
}
