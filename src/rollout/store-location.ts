// Where a collection's sessions are: in the store that its record names, without passwords, or in the file next to it.
import { existsSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { invalidOption } from "../core/errors.ts";
import { hideSecrets } from "../io/hide-secrets.ts";
import { readRecord } from "./collection-record.ts";
import { outputPaths, storeFileFor } from "./output.ts";

/**
 * Returns the store's URL for the record. The file next to the output is found without it, and an in-memory store is
 * gone.
 */
export function describeStore(url: string, out: string): { store?: string } {
  if (url.startsWith("memory:")) return {};
  const file = sqliteFile(url);
  if (file === undefined) return { store: hideSecrets(url) };
  if (resolve(file) === resolve(storeFileFor(out))) return {};
  return { store: `sqlite:${relative(resolve(dirname(out)), resolve(file)).replaceAll("\\", "/")}` };
}

/** A store, or undefined if none is known. `isTrusted`: it may be opened even if the user did not name it. */
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

/** Returns the recorded store for a collection that is resumed without naming one; undefined if none is recorded. */
export function storeToResume(out: string): string | undefined {
  const recorded = recordedStore(out);
  if (recorded === undefined) return undefined;
  const located = locateStore(out);
  if (located?.isTrusted) return located.url;
  throw invalidOption(
    located
      ? untrustedText(out, located.url)
      : `the sessions of ${out} were in ${recorded}, which does not exist; name the store to resume with --store`,
  );
}

/** Explains why a file's recorded store is not opened. */
export function untrustedText(file: string, url: string): string {
  return `the record of ${file} names the store ${hideSecrets(url)}; a record may come from somebody else, so name the store with --store to open it`;
}

function recordedStore(file: string): string | undefined {
  let store: string | undefined;
  try {
    ({ store } = readRecord(outputPaths(file).run) ?? {});
  } catch {
    // An unreadable record is reported elsewhere.
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
 * Whether a store is a file or a server on this machine. The record may come from somebody else: nothing may be sent to
 * another address in it, least of all with credentials of the environment. So the pattern is strict.
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
