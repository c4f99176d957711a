// A collection that is played by workers: what they are told of it, and how they are reached.
import { hostname } from "node:os";
import { resolve } from "node:path";
import { HoldfastError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { Collection } from "./job.ts";
import { openQueuePlayer } from "./player.ts";
import type { CollectionRecord } from "../rollout/collection-record.ts";
import { queueAddress } from "./address.ts";
import type { CollectionSettings, Target } from "../rollout/collection-settings.ts";
import { digestFiles } from "../rollout/build-record.ts";
import type { Player, SourceSettings } from "../rollout/source.ts";

/** What a worker makes its player of. */
export interface PlaySettings extends Omit<SourceSettings, "concurrency" | "model" | "agent"> {
  model: string;
  agent?: string;
  /** As it was given: it is looked for from the folder that the worker was started in. */
  target?: string;
  /** Where the sessions are; undefined if that is the queue's own Redis. */
  store?: string;
  /** The machine that has the store's file, if it is a file. */
  host?: string;
  /** What the files have to be, by their digests. */
  files: { [name: string]: Json };
}

/** Refuses what is wrong with the queue before anything is looked at. */
export function assertQueue(flags: CollectionSettings): void {
  if (flags.queue === undefined) return;
  queueAddress(flags.queue);
  storeOf(flags);
}

/** Plays by workers. Nothing else of a collection is different. */
export async function queuePlayer(
  target: Target | undefined,
  flags: CollectionSettings,
  record: CollectionRecord,
  say: (text: string) => void,
): Promise<Player> {
  if ([target, flags.model, flags.agent].some((given) => typeof given === "object")) {
    const message = "workers load the environment, the model and the agent by name; name them, or leave the queue out";
    throw new HoldfastError("invalid_option", message);
  }
  const { agent, server, model, seed, maxSteps, timeout, temperature, out } = flags;
  const settings: PlaySettings = {
    ...(dropUndefined({ target, agent, server, model, seed, maxSteps, timeout, temperature }) as PlaySettings),
    ...storeOf(flags),
    files: await digestFiles(target, flags),
  };
  const title = `${String(record.settings["environment"])}, ${String(model)}: ${out}`;
  const collection: Collection = { run: record.run, title, settings: settings as unknown as Collection["settings"] };
  const address = queueAddress(flags.queue as string);
  return openQueuePlayer({ address, collection, say });
}

/** Where workers find the sessions. Of a file they are told the whole path. */
function storeOf({ store, queue }: CollectionSettings): Pick<PlaySettings, "store" | "host"> {
  // Workers have the URL of the queue: its password need not be in every job.
  if (store === undefined || store === queue) return {};
  if (store.startsWith("memory:")) {
    throw new HoldfastError("invalid_option", "workers cannot share memory:; leave --store out, or name a server's");
  }
  const [, file] = /^sqlite:(.+)$/.exec(store) ?? [];
  return file === undefined ? { store } : { store: `sqlite:${resolve(file)}`, host: hostname() };
}

function dropUndefined<T extends object>(given: T): T {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as T;
}
