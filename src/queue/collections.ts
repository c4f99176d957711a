// What a worker plays: each collection with its own environment, agent and store, as long as the files are those of the collector.
import { hostname } from "node:os";
import { HoldfastError } from "../core/errors.ts";
import type { Play } from "../core/rollout.ts";
import type { Store } from "../core/store.ts";
import type { Collection } from "./job.ts";
import { differences } from "../rollout/collection-record.ts";
import type { PlaySettings } from "./collector.ts";
import { digestFiles } from "../rollout/build-record.ts";
import { sourceOf, type Player } from "../rollout/source.ts";
import { openStore } from "../stores/open.ts";
import { assertFilesWithin, assertStore } from "./allowed.ts";

export interface CollectionsOptions {
  /** The URL of the queue, which is the store too unless a collection says otherwise. */
  queue: string;
  /** The store of all collections, whatever they say. */
  store: string | undefined;
  concurrency: number;
  /** Where all that a collection names by a path has to be. */
  folder: string;
}

export interface Collections {
  /** What plays a collection. Rejects with why it is not played here. */
  playerOf(collection: Collection): Promise<Play>;
  close(): Promise<void>;
}

/** How many collections are kept ready that nothing is played of. */
const mostIdle = 8;

interface Ready {
  player: Promise<Player>;
  active: number;
}

/** A store, and how many collections use it. */
interface Shared {
  store: Promise<Store>;
  users: number;
}

export function createCollections(options: CollectionsOptions): Collections {
  const { queue, store: override, concurrency, folder } = options;
  /** By all that they are made of, the one that was asked for last at the end. */
  const known = new Map<string, Ready>();
  const stores = new Map<string, Shared>();
  /** What was loaded, with the digest that it had: a module is loaded once in the life of a process. */
  const loaded = new Map<string, string>();

  /** One for all that use it, closed by the last of them. One that is away is tried again. */
  async function useStore(url: string): Promise<{ store: Store; leave(): Promise<void> }> {
    const shared = stores.get(url) ?? { store: openStore(url), users: 0 };
    stores.set(url, shared);
    shared.users++;
    const leave = async (): Promise<void> => {
      if (--shared.users > 0) return;
      if (stores.get(url) === shared) stores.delete(url);
      await (await shared.store).close();
    };
    try {
      return { store: await shared.store, leave };
    } catch (thrown) {
      await leave().catch(() => undefined);
      throw thrown;
    }
  }

  async function open(settings: PlaySettings): Promise<Player> {
    const { target, store, host, files: _, ...flags } = settings;
    await assertFilesWithin(folder, settings);
    await assertSameFiles(settings);
    if (host !== undefined && override === undefined && host !== hostname()) {
      throw refusal(
        `its sessions are in ${store} on ${host}; use a store that all can reach, or name yours with --store`,
      );
    }
    if (override === undefined && store !== undefined) assertStore(folder, store);
    assertUnchanged(settings);
    const source = await sourceOf(target, { ...flags, concurrency });
    const used = await useStore(override ?? store ?? queue);
    const { play, stop } = source.player(used.store);
    return {
      play,
      async stop() {
        try {
          await stop();
        } finally {
          await used.leave();
        }
      },
    };
  }

  /** Refuses what is another in the file than what was loaded from it before. */
  function assertUnchanged({ target, agent, files }: PlaySettings): void {
    const modules = [
      ["environment's file", target],
      ["solution", target],
      ["agent", agent],
    ] as const;
    for (const [name, path] of modules) {
      const digest = files[name];
      if (typeof digest !== "string" || path === undefined) continue;
      const before = loaded.get(`${name} ${path}`);
      if (before !== undefined && before !== digest) {
        throw refusal(`${path} has changed since this worker loaded it; start the worker again`);
      }
      loaded.set(`${name} ${path}`, digest);
    }
  }

  /** Those that were not asked for in a long time are let go. */
  function trim(): void {
    const idle = [...known].filter(([, { active }]) => active === 0);
    for (const [key, { player }] of idle.slice(0, Math.max(0, idle.length - mostIdle))) {
      known.delete(key);
      player.then((made) => made.stop()).catch(() => undefined);
    }
  }

  return {
    async playerOf({ settings }) {
      const key = JSON.stringify(settings);
      const ready = known.get(key) ?? { player: open(settings as unknown as PlaySettings), active: 0 };
      known.delete(key);
      known.set(key, ready);
      try {
        const { play } = await ready.player;
        return async (rollout, signal) => {
          ready.active++;
          try {
            return await play(rollout, signal);
          } finally {
            ready.active--;
            trim();
          }
        };
      } catch (thrown) {
        // What is wrong with it may be put right.
        if (known.get(key) === ready) known.delete(key);
        throw thrown;
      }
    },
    async close() {
      await Promise.allSettled([...known.values()].map(async ({ player }) => (await player).stop()));
    },
  };
}

async function assertSameFiles({ target, files, agent, model }: PlaySettings): Promise<void> {
  const own = await digestFiles(target, { model, ...(agent !== undefined && { agent }) });
  const changed = differences(files, own);
  if (changed.length === 0) return;
  // Only which: what is said goes back into the queue, and what a file of this machine is like is nobody's business there.
  const names = changed.map((text) => text.split(" was ", 1)[0]).join(", ");
  throw refusal(`the collector's files are others than this worker's: ${names}`);
}

const refusal = (message: string): HoldfastError => new HoldfastError("invalid_option", message);
