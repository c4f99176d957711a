// heartsOf(): the workers that Redis knows, and how long each was silent.
import type { Connection } from "./connection.ts";
import { heartOf } from "./worker-name.ts";

/**
 * The workers, by their names, with how long they were silent, in seconds by the server's clock. One whose machine is gone
 * stays in the server's list for minutes. Undefined where the server tells of no connections.
 */
export async function heartsOf({ onEach, prefix }: Connection): Promise<Map<string, number> | undefined> {
  const lists = await onEach(async (server) => String(await server.client("LIST"))).catch(() => undefined);
  if (!lists) return undefined;
  const hearts = new Map<string, number>();
  const start = heartOf(prefix, "");
  for (const line of lists.flatMap((list) => list.split("\n"))) {
    const [, name = "", idle] = / name=(\S+) .*\bidle=(\d+) /.exec(line) ?? [];
    if (!name.startsWith(start)) continue;
    const worker = name.slice(start.length);
    hearts.set(worker, Math.min(Number(idle), hearts.get(worker) ?? Infinity));
  }
  return hearts;
}
