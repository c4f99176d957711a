// All kinds of store, for tests that hold on every one: for (const kind of everyStore) describe(kind.name, …).
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { memoryStore, type Store } from "holdfast";
import { httpStore } from "holdfast/stores/http";
import { postgresStore } from "holdfast/stores/postgres";
import { redisStore } from "holdfast/stores/redis";
import { s3Store } from "holdfast/stores/s3";
import { sqliteStore } from "holdfast/stores/sqlite";
import { dropSchema } from "../tools/servers/postgres.mjs";
import { removePrefix } from "../tools/servers/redis.mjs";
import { startS3 } from "../tools/servers/s3.mjs";
import { shared } from "./shared.ts";
import { serveStore } from "./stores/http-server.ts";

/** One storage, empty at first, opened once. */
export interface Storage {
  readonly store: Store;
  /** One more store on the same storage, beside the open ones. */
  second(): Promise<Store>;
  /**
   * Closes every store on it and opens a new one, as a restart would. Memory keeps the same store, since it has no
   * restart.
   */
  reopen(): Promise<Store>;
  /** Closes every store on it and removes it. */
  dispose(): Promise<void>;
}

export interface StoreKind {
  name: string;
  /** The tags of engine tests on this kind: `npm test` tries engines on two kinds, the full lane on the others. */
  tags: "full"[];
  persistent: boolean;
  /** Whether every verb is a round trip to a server: properties are tried less often there. */
  isRemote: boolean;
  open(): Promise<Storage>;
}

function inMemory(name: string, make: () => Store): StoreKind {
  return {
    name,
    tags: [],
    persistent: false,
    isRemote: false,
    async open() {
      const store = make();
      return { store, second: async () => store, reopen: async () => store, dispose: () => store.close() };
    },
  };
}

/**
 * The location of a kind's logs: `make` opens a store there, and `remove` deletes everything after all stores are
 * closed.
 */
interface Site {
  make(): Store | Promise<Store>;
  remove(): Promise<unknown>;
}

function lasting(name: string, isRemote: boolean, find: () => Promise<Site>): StoreKind {
  return {
    name,
    tags: name === "sqlite, durability process" ? [] : ["full"],
    persistent: true,
    isRemote,
    async open() {
      const { make, remove } = await find();
      const stores: Store[] = [];
      const second = async (): Promise<Store> => {
        const store = await make();
        stores.push(store);
        return store;
      };
      const closeAll = (): Promise<unknown> => Promise.all(stores.splice(0).map((store) => store.close()));
      return {
        store: await second(),
        second,
        async reopen() {
          await closeAll();
          return second();
        },
        async dispose() {
          await closeAll();
          await remove();
        },
      };
    },
  };
}

const sqlite = (durability: "process" | "power"): StoreKind =>
  lasting(`sqlite, durability ${durability}`, false, async () => {
    const folder = await mkdtemp(join(tmpdir(), "holdfast-"));
    return {
      make: () => sqliteStore({ file: join(folder, "sessions.db"), durability }),
      remove: () => rm(folder, { recursive: true, force: true }),
    };
  });

const newName = (): string => `t${randomUUID().replaceAll("-", "")}`;

const redis = lasting("redis", true, async () => {
  const [url, prefix] = [await shared("redis"), newName()];
  return {
    make: () => redisStore({ url: `${url}?prefix=${prefix}` }),
    remove: () => removePrefix([Number(new URL(url).port)], prefix),
  };
});

const postgres = lasting("postgres", true, async () => {
  const [url, schema] = [await shared("postgres"), newName()];
  return {
    make: () => postgresStore({ url: `${url}?schema=${schema}&connections=2` }),
    remove: () => dropSchema(url, schema),
  };
});

const s3 = lasting("s3", true, async () => {
  const server = await startS3({ bucket: "tests", accessKeyId: "key", secretAccessKey: "secret" });
  const credentials = { accessKeyId: "key", secretAccessKey: "secret" };
  return {
    make: () => s3Store({ url: `s3://tests/here?endpoint=${server.endpoint}`, credentials }),
    remove: () => server.stop(),
  };
});

const http = lasting("http", true, async () => {
  const served = await serveStore();
  return { make: () => httpStore({ url: served.url }), remove: () => served.dispose() };
});

export const everyStore: StoreKind[] = [
  inMemory("memory", memoryStore),
  sqlite("process"),
  sqlite("power"),
  redis,
  postgres,
  s3,
  http,
];
