// Shared by commands on a file of rollouts: complaints about its lines, and the store of its sessions.
import { existsSync } from "node:fs";
import { invalidOption } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import { storeFileFor } from "../rollout/output.ts";
import type { BadRow } from "../rollout/tasks.ts";
import { plain } from "./plain.ts";
import { openStore } from "../stores/open.ts";

const mostNotes = 10;

/** Reports invalid lines on the error output. The rest of the file is read, and the exit code is 1. */
export function createComplaints(): (bad: BadRow, file: string) => void {
  let count = 0;
  return ({ line, problem }, file) => {
    process.exitCode = 1;
    if (++count <= mostNotes) note(`line ${line} of ${file} is passed over: ${problem}`);
    else if (count === mostNotes + 1) note("and more lines like that");
  };
}

/** Prints a note that is not part of the output. It may contain foreign text. */
export function note(text: string): void {
  process.stderr.write(`${plain(text)}\n`);
}

/** Opens the store with the sessions of a file. The caller closes it. */
export async function openStoreFor(file: string | undefined, url: string | undefined): Promise<Store> {
  if (url !== undefined) return openStore(url, { isThere: true });
  if (file === undefined) throw invalidOption("name a file of rows, or a store with --store");
  const beside = storeFileFor(file);
  if (existsSync(beside)) return openStore(`sqlite:${beside}`, { isThere: true });
  throw invalidOption(`there is no ${beside} with the sessions; name their store with --store`);
}
