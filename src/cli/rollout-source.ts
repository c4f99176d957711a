// Shared by commands that read a rollouts file: complaints about its lines, and the store with its sessions.
import { invalidOption } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import { storeFileFor } from "../rollout/output.ts";
import { locateStore, untrustedText, type StoreLocation } from "../rollout/store-location.ts";
import type { OnBad } from "../rollout/tasks.ts";
import { plain } from "./plain.ts";
import { openStore } from "../stores/open.ts";

const mostNotes = 10;

/** Reports invalid lines on standard error. The rest of the file is read, and the exit code is 1. */
export function createComplaints(): OnBad {
  let count = 0;
  return ({ line, problem }, file) => {
    process.exitCode = 1;
    if (++count <= mostNotes) note(`line ${line} of ${file} is ignored: ${problem}`);
    else if (count === mostNotes + 1) note("further invalid lines are not listed");
  };
}

/** Prints a note that is not part of the output. It may contain foreign text. */
export function note(text: string): void {
  process.stderr.write(`${plain(text)}\n`);
}

/** Explains how to name the store for a file, if it cannot be opened without asking. */
export function storeHint(file: string, located: StoreLocation | undefined): string {
  if (!located)
    return `the store with the sessions of ${file} is unknown: ${storeFileFor(file)} does not exist; name it with --store`;
  return untrustedText(file, located.url);
}

/** Opens the store with a file's sessions. The caller closes it. */
export async function openStoreFor(file: string | undefined, url: string | undefined): Promise<Store> {
  if (url !== undefined) return openStore(url, { isThere: true });
  if (file === undefined) throw invalidOption("name a file of rollouts, or a store with --store");
  const located = locateStore(file);
  if (located?.isTrusted) return openStore(located.url, { isThere: true });
  throw invalidOption(storeHint(file, located));
}
