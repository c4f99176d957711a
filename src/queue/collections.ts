// createCollections(): prepares each collection's player for a worker. The worker's files must equal the collector's.
import { hostname } from "node:os";
import { invalidOption } from "../core/errors.ts";
import type { Play, Rollout } from "../core/rollout.ts";
import type { Store } from "../core/store.ts";
import type { QueuedCollection } from "./job.ts";
import { differences } from "../rollout/collection-record.ts";
import type { PlaySettings } from "./collector.ts";
import { digestFiles } from "../rollout/build-record.ts";
import { createRequestedModels } from "../rollout/requests/model.ts";
import { openPlaySource, type Player } from "../rollout/source.ts";
import { openStore } from "../stores/open.ts";
import { assertFilesWithin, assertStore } from "./allowed.ts";

export interface CollectionsOptions {
  /** URL of the queue. The queue is also the store, unless a collection names a different store. */
  queue: string;
  /** Store for all collections; overrides the stores that they name. */
  store: string | undefined;
  concurrency: number;
  /** All paths that a collection names must be inside this folder. */
  folder: string;
  /** URLs of models that rollout requests may name, in addition to models on this machine. */
  models?: readonly string[] | undefined;
}

/** Number of unused collections to keep ready. */
const mostIdle = 8;

interface Ready {
  player: Promise<Player>;
  active: number;
}

/** An open store and the number of collections that use it. */
interface Shared {
  store: Promise<Store>;
  users: number;
}

export type Collections = ReturnType<typeof createCollections>;

export function createCollections(options: CollectionsOptions) {
  const { queue, store: override, concurrency, folder } = options;
  const modelFor = createRequestedModels(options.models);
  /** Open collections by their settings, least recently used first. */
  const known = new Map<string, Ready>();
  const stores = new Map<string, Shared>();
  /** Digests of loaded modules, because a process loads a module only once. */
  const loaded = new Map<string, string>();

  /** Shares one store among its users; the last user closes it. If a store failed to open, opening is retried. */
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
    const { target, store, host, files: _, requested, ...flags } = settings;
    await assertFilesWithin(folder, settings);
    await assertSameFiles(settings);
    if (host !== undefined && override === undefined && host !== hostname()) {
      throw invalidOption(
        `the sessions are in ${store} on ${host}, which this worker cannot reach; use a shared store, or name this worker's store with --store`,
      );
    }
    if (override === undefined && store !== undefined) assertStore(folder, store);
    assertUnchanged(settings);
    const model = requested ? await modelFor(requested) : flags.model;
    const source = await openPlaySource(target, { ...flags, model, concurrency });
    const used = await useStore(override ?? store ?? queue);
    const { stop, ...player } = source.player(used.store);
    return {
      ...player,
      async stop() {
        try {
          await stop();
        } finally {
          await used.leave();
        }
      },
    };
  }

  /** Refuses a file that changed after this worker loaded it. */
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
        throw invalidOption(`${path} has changed since this worker loaded it; restart the worker`);
      }
      loaded.set(`${name} ${path}`, digest);
    }
  }

  /** Stops the least recently used idle collections. */
  function trim(): void {
    const idle = [...known].filter(([, { active }]) => active === 0);
    for (const [key, { player }] of idle.slice(0, Math.max(0, idle.length - mostIdle))) {
      known.delete(key);
      player.then((made) => made.stop()).catch(() => undefined);
    }
  }

  return {
    /** Returns a collection's player. Rejects with the reason if this worker cannot play it. */
    async openPlayer({ settings }: QueuedCollection): Promise<Play> {
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
        // The cause may be fixed later, so the next job retries.
        if (known.get(key) === ready) known.delete(key);
        throw thrown;
      }
    },
    /** Returns the author's code that was running when a rollout was interrupted; undefined if unknown. */
    async readCut({ settings }: QueuedCollection, rollout: Rollout): Promise<string | undefined> {
      const player = await known.get(JSON.stringify(settings))?.player;
      return player?.readCut?.(rollout);
    },
    async close(): Promise<void> {
      await Promise.allSettled([...known.values()].map(async ({ player }) => (await player).stop()));
    },
  };
}

async function assertSameFiles({ target, files, agent, model }: PlaySettings): Promise<void> {
  const own = await digestFiles(target, { model, ...(agent !== undefined && { agent }) });
  const changed = differences(files, own);
  if (changed.length === 0) return;
  // Contains only names: the message is stored in the queue, and must not reveal details of this machine's files.
  const names = changed.map((text) => text.split(" was ", 1)[0]).join(", ");
  throw invalidOption(`the collector's files differ from this worker's: ${names}`);
}
