// isLoopback(): whether a host is this machine.
import { isIP } from "node:net";

/** Returns whether a host name or address always leads to this machine. Accepts `::1` with and without brackets. */
export function isLoopback(host: string): boolean {
  if (host === "localhost" || host === "::1" || host === "[::1]") return true;
  return isIP(host) === 4 && host.startsWith("127.");
}
