// Clears a queue of what was left behind, or prints what that would be.
import { clearQueue, type Cleared } from "../../queue/clear.ts";
import { queueAddress } from "../../queue/address.ts";
import { collectionLines, counted } from "./words.ts";

export async function clear(url: string, remove: boolean, json: boolean): Promise<void> {
  const cleared = await clearQueue(queueAddress(url), remove);
  process.stdout.write(json ? `${JSON.stringify(cleared)}\n` : textOf(cleared, remove));
}

/** For people. */
function textOf({ queue, collections, removed }: Cleared, remove: boolean): string {
  if (collections.length === 0) return `nothing was left behind in the queue at ${queue}\n`;
  const lines = [
    `no collector waits for ${counted(collections.length, "collection")} in the queue at ${queue}`,
    ...collections.flatMap(collectionLines),
    "",
    remove
      ? `removed ${counted(removed, "rollout")}`
      : "nothing was removed; use --yes to remove all but what workers are playing",
  ];
  const found = collections.reduce((sum, { waiting, active, delayed, finished, failed }) => {
    return sum + waiting + active + delayed + finished + failed;
  }, 0);
  if (remove && removed < found) lines.push("what workers are playing stays; clear again when they are done with it");
  return `${lines.join("\n")}\n`;
}
