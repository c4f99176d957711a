// Where the sessions of a collection are: as its record says, without passwords, or in the file beside it.
import { existsSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { readRecord } from "./collection-record.ts";
import { outputPaths, storeFileFor } from "./output.ts";

/** Returns the store's URL for the record. The file beside the output is found without it, and memory is gone. */
export function describeStore(url: string, out: string): { store?: string } {
  if (url.startsWith("memory:")) return {};
  const [, file] = /^sqlite:(.+)$/.exec(url) ?? [];
  if (file === undefined) return { store: withoutSecrets(url) };
  if (resolve(file) === resolve(storeFileFor(out))) return {};
  return { store: `sqlite:${relative(resolve(dirname(out)), resolve(file)).replaceAll("\\", "/")}` };
}

/** Removes passwords and tokens. In the URL of an HTTP store the user is a token too. */
function withoutSecrets(url: string): string {
  const bare = url.replace(/^(https?:\/\/)[^@/?]*@/i, "$1").replace(/(:\/\/[^:@/?]*):[^@/?]*@/, "$1@");
  return bare
    .replace("://@", "://")
    .replace(/([?&])(?:[^=&]*(?:password|token|secret)[^=&]*)=[^&]*/gi, "$1")
    .replace(/[?&]+$/, "");
}

/** A store, or undefined if none is known. `isTrusted`: opening it sends no secret to an address from a file. */
export interface StoreLocation {
  url: string;
  isTrusted: boolean;
}

/** Returns where the sessions of a file are. */
export function locateStore(file: string): StoreLocation | undefined {
  const recorded = recordedStore(file);
  if (recorded !== undefined) return { url: recorded, isTrusted: !sendsSecret(recorded) };
  const beside = storeFileFor(file);
  return existsSync(beside) ? { url: `sqlite:${beside}`, isTrusted: true } : undefined;
}

function recordedStore(file: string): string | undefined {
  let store: string | undefined;
  try {
    ({ store } = readRecord(outputPaths(file).run) ?? {});
  } catch {
    // Others report an unreadable record.
    return undefined;
  }
  const [, path] = /^sqlite:(.+)$/.exec(store ?? "") ?? [];
  if (path === undefined) return store;
  const found = isAbsolute(path) ? path : join(dirname(file), path);
  return existsSync(found) ? `sqlite:${found}` : undefined;
}

/** The record may come from somebody else: a token of the environment must not be sent to the address in it. */
function sendsSecret(url: string): boolean {
  if (/^https?:/i.test(url)) return Boolean(process.env["HOLDFAST_STORE_TOKEN"]);
  return /^postgres/i.test(url) && Boolean(process.env["PGPASSWORD"]);
}
