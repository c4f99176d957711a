// Finds the store with a collection's sessions: the store in its record, or the file next to it.
import { existsSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { invalidOption } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import { hideSecrets } from "../io/hide-secrets.ts";
import { openStore } from "../stores/open.ts";
import { readRecord } from "./collection-record.ts";
import { outputPaths, storeFileFor } from "./output.ts";

/** Returns the store's URL for the record. A file next to the output needs no URL, and a store in memory is gone. */
export function describeStore(url: string, out: string): { store?: string } {
  if (url.startsWith("memory:")) return {};
  const file = sqliteFile(url);
  if (file === undefined) return { store: hideSecrets(url) };
  if (resolve(file) === resolve(storeFileFor(out))) return {};
  return { store: `sqlite:${relative(resolve(dirname(out)), resolve(file)).replaceAll("\\", "/")}` };
}

/** The location of a store. `isTrusted`: the store may be opened even if the user did not name it. */
export interface StoreLocation {
  url: string;
  isTrusted: boolean;
}

/** Returns where a file's sessions are. */
export function locateStore(file: string): StoreLocation | undefined {
  const recorded = recordedStore(file);
  if (recorded !== undefined && isThere(recorded)) return { url: recorded, isTrusted: isLocal(recorded) };
  const beside = storeFileFor(file);
  return existsSync(beside) ? { url: `sqlite:${beside}`, isTrusted: true } : undefined;
}

/** Returns the store for a collection that is resumed without --store; undefined if no store is recorded. */
export function storeToResume(out: string): string | undefined {
  const recorded = recordedStore(out);
  if (recorded === undefined) return undefined;
  const located = locateStore(out);
  if (located?.isTrusted) return located.url;
  throw invalidOption(
    located
      ? untrustedText(out, located.url)
      : `the sessions of ${out} were in ${recorded}, which no longer exists; name their store with --store`,
  );
}

/** Explains why a file's recorded store is not opened. */
export function untrustedText(file: string, url: string): string {
  return `the run record of ${file} names the store ${hideSecrets(url)}; a record may come from another person, so that store is opened only if you name it with --store`;
}

/** Explains how to name the store of a file, if it is not opened automatically. */
export function storeHint(file: string, located: StoreLocation | undefined): string {
  if (!located)
    return `cannot find the sessions of ${file}: ${storeFileFor(file)} does not exist; name the store with --store`;
  return untrustedText(file, located.url);
}

/** Opens the store with a file's sessions. The caller closes it. */
export async function openStoreFor(file: string | undefined, url: string | undefined): Promise<Store> {
  if (url !== undefined) return openStore(url, { isThere: true });
  if (file === undefined) throw invalidOption("name a rollout file, or a store with --store");
  const located = locateStore(file);
  if (located?.isTrusted) return openStore(located.url, { isThere: true });
  throw invalidOption(storeHint(file, located));
}

function recordedStore(file: string): string | undefined {
  let store: string | undefined;
  try {
    ({ store } = readRecord(outputPaths(file).run) ?? {});
  } catch {
    // Ignored, because reading the settings in the record reports the error.
    return undefined;
  }
  const path = sqliteFile(store);
  if (path === undefined) return store;
  return `sqlite:${isAbsolute(path) ? path : join(dirname(file), path)}`;
}

const sqliteFile = (url = ""): string | undefined => /^sqlite:(.+)$/s.exec(url)?.[1];

function isThere(url: string): boolean {
  const file = sqliteFile(url);
  return file === undefined || existsSync(file);
}

const loopback =
  /^(?:https?|rediss?(?:\+[a-z]+)?|postgres(?:ql)?):\/\/(?:[^@/?#\\\s…]*@)?(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?(?:\/[^@?#\\\s]*)?(?:\?([^@#\\\s]*))?$/;
/** Parameters that name neither an address nor a file. In a Postgres URL, `host` would replace the host. */
const harmless = new Set(["prefix", "expire", "wait", "eviction", "schema", "connections", "sslmode", "region"]);

/**
 * Returns whether a store is a file or a server on this machine. The record may come from another person, so nothing
 * may be sent to any other address, especially not credentials from the environment. So the pattern is strict.
 */
function isLocal(url: string): boolean {
  if (sqliteFile(url) !== undefined) return true;
  const [, bucket] = /^s3:\/\/[^@:?#\\\s]+\?([^@#\\\s]*)$/.exec(url) ?? [];
  if (bucket === undefined) {
    const [found, query] = loopback.exec(url) ?? [];
    return found !== undefined && areHarmless(new URLSearchParams(query));
  }
  const parameters = new URLSearchParams(bucket);
  const [endpoint = "", ...others] = parameters.getAll("endpoint");
  parameters.delete("endpoint");
  return others.length === 0 && /^https?:[^?]*$/.test(endpoint) && loopback.test(endpoint) && areHarmless(parameters);
}

const areHarmless = (parameters: URLSearchParams): boolean =>
  [...parameters.keys()].every((name) => harmless.has(name));
