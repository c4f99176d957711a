// queuePlayer(): runs a collection on workers. Builds the settings that workers receive, and opens the connection.
import { hostname } from "node:os";
import { resolve } from "node:path";
import { invalidOption } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { QueuedCollection } from "./job.ts";
import { openQueuePlayer } from "./player.ts";
import type { CollectionRecord } from "../rollout/collection-record.ts";
import { queueAddress } from "./connection.ts";
import type { CollectionSettings, Target } from "../rollout/collection-settings.ts";
import type { RequestedModel } from "../rollout/requests/request.ts";
import { digestFiles } from "../rollout/build-record.ts";
import type { PlayedSettings, Player } from "../rollout/source.ts";

/** The settings from which a worker builds its player. */
export interface PlaySettings extends Omit<PlayedSettings, "concurrency" | "model" | "agent"> {
  model: string;
  /** The model that a rollout request's client names, instead of `model`. */
  requested?: RequestedModel;
  agent?: string;
  /** The path as the user passed it. The worker resolves it in its own working folder. */
  target?: string;
  /** Where the sessions are; undefined for the queue's own Redis. */
  store?: string;
  /** The machine with the store's file, if the store is a file. */
  host?: string;
  /** Expected digests of the files. */
  files: { [name: string]: Json };
}

/** Refuses an invalid queue or store before anything else happens. */
export function assertQueue(flags: CollectionSettings): void {
  if (flags.queue === undefined) return;
  queueAddress(flags.queue);
  findStore(flags);
}

/** Creates a player that runs rollouts on workers. Everything else is the same as in a local collection. */
export async function queuePlayer(
  target: Target | undefined,
  flags: CollectionSettings,
  record: CollectionRecord,
  say: (text: string) => void,
): Promise<Player> {
  if ([target, flags.model, flags.agent].some((given) => typeof given === "object")) {
    const message =
      "queue workers load the environment, the model and the agent by name; pass names instead of objects, or remove the queue";
    throw invalidOption(message);
  }
  const { agent, server, model, seed, maxSteps, timeout, temperature, replyTimeout, replyIdle, maxReply, out } = flags;
  const limits = dropUndefined({ maxSteps, timeout, replyTimeout, replyIdle, maxReply });
  const settings: PlaySettings = {
    ...(dropUndefined({ target, agent, server, model, seed, temperature }) as PlaySettings),
    ...limits,
    ...findStore(flags),
    files: await digestFiles(target, flags),
  };
  const title = `${String(record.settings["environment"])}, ${String(model)}: ${out}`;
  const collection: QueuedCollection = {
    run: record.run,
    title,
    settings: settings as unknown as QueuedCollection["settings"],
  };
  const address = queueAddress(flags.queue as string);
  return openQueuePlayer({ address, collection, say });
}

/** Returns the store for workers. A file's path is made absolute. */
export function findStore({
  store,
  queue,
}: Pick<CollectionSettings, "store" | "queue">): Pick<PlaySettings, "store" | "host"> {
  // Workers know the queue's URL, so jobs need not contain its password.
  if (store === undefined || store === queue) return {};
  if (store.startsWith("memory:")) {
    throw invalidOption("workers cannot share a memory: store; remove --store, or name a store that they can reach");
  }
  const [, file] = /^sqlite:(.+)$/.exec(store) ?? [];
  return file === undefined ? { store } : { store: `sqlite:${resolve(file)}`, host: hostname() };
}

function dropUndefined<T extends object>(given: T): T {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as T;
}
