// readHeartbeats(): lists the workers known to Redis and how long each has been silent.
import type { Connection } from "./connection.ts";
import { toConnectionName } from "./worker-name.ts";

/**
 * Returns the seconds of silence by worker name, measured by the server's clock. A worker on a lost machine stays
 * listed for minutes. Returns undefined if the server does not list connections.
 */
export async function readHeartbeats({ onEach, prefix }: Connection): Promise<Map<string, number> | undefined> {
  const lists = await onEach(async (server) => String(await server.client("LIST"))).catch(() => undefined);
  if (!lists) return undefined;
  const heartbeats = new Map<string, number>();
  const start = toConnectionName(prefix, "");
  for (const line of lists.flatMap((list) => list.split("\n"))) {
    const [, name = "", idle] = / name=(\S+) .*\bidle=(\d+) /.exec(line) ?? [];
    if (!name.startsWith(start)) continue;
    const worker = name.slice(start.length);
    heartbeats.set(worker, Math.min(Number(idle), heartbeats.get(worker) ?? Infinity));
  }
  return heartbeats;
}
