// Copies the logs of a store into another one, entry for entry, and proves by digest that they are the same there.
import { createHash } from "node:crypto";
import { isHoldfastError } from "../core/errors.ts";
import type { Listed, Store } from "../core/store.ts";
import { copyLog, type Fate } from "./copy/log.ts";

/** A log that is not in both stores alike. */
export interface CopyProblem {
  session: string;
  /**
   * `differs`: the other store has another log under its name, which was left as it is. `changed`: it was written to,
   * opened or deleted meanwhile; copying again goes on from there. `failed`: it cannot be read, or did not come out as it
   * went in.
   */
  fate: "differs" | "changed" | "failed";
  message: string;
}

export interface CopySummary {
  /** Logs that were written, whole or what was missing of them, and logs that were there already. */
  copied: number;
  equal: number;
  /** Entries that were written. */
  entries: number;
  problems: CopyProblem[];
}

/** How many logs are read at once. They are opened one after the other, so that the order of opening stays. */
const atOnce = 16;

/**
 * Copies every log that there is: of all environments, and those that a server keeps for itself. What is there already
 * stays; a log that was copied in part goes on where it ended. A store that fails ends it; what was copied stays, and
 * copying again goes on. `onLog` hears of each log.
 */
export async function copyLogs(from: Store, to: Store, onLog?: () => void): Promise<CopySummary> {
  const summary: CopySummary = { copied: 0, equal: 0, entries: 0, problems: [] };
  const accounts = new Map<string, Account>();
  const running: Promise<void>[] = [];
  let turn: Promise<void> = Promise.resolve();

  async function copy(row: Listed, turn: Promise<void>, opened: () => void): Promise<void> {
    try {
      const fate = await fateOf(copyLog({ from, to, row, turn, opened }));
      accounts.set(row.session, { fate, mark: markOf(row) });
      summary.entries += fate.entries;
      onLog?.();
    } finally {
      opened();
    }
  }

  try {
    for await (const row of from.list()) {
      const before = turn;
      let opened: () => void = () => undefined;
      turn = new Promise((resolve) => (opened = resolve));
      const copying = copy(row, before, opened);
      // Told to who awaits it below.
      copying.catch(() => undefined);
      running.push(copying);
      if (running.length >= atOnce) await running.shift();
    }
    while (running.length > 0) await running.shift();
  } finally {
    await Promise.allSettled(running);
  }

  await review(from, to, accounts);
  for (const [session, { fate }] of accounts) {
    if (fate.kind === "copied" || fate.kind === "equal") summary[fate.kind]++;
    else summary.problems.push({ session, fate: fate.kind, message: fate.message ?? "" });
  }
  return summary;
}

interface Account {
  fate: Fate;
  /** Stands for its row in the list. */
  mark: string;
}

/** What a list says of a log, in a few bytes: a store may have millions. */
function markOf({ version, touched, environment, opened, parent, ended }: Listed): string {
  const about = [version, touched, environment, opened, parent?.session, parent?.version, ended];
  return createHash("sha256").update(JSON.stringify(about)).digest("base64").slice(0, 22);
}

/** A log that cannot be read does not keep the others from being copied; a store that fails does. */
async function fateOf(copying: Promise<Fate>): Promise<Fate> {
  try {
    return await copying;
  } catch (thrown) {
    if (!isHoldfastError(thrown) || thrown.code !== "store_corrupt") throw thrown;
    return { kind: "failed", entries: 0, message: thrown.message };
  }
}

/** Looks at both lists once more: what was changed meanwhile here, and whether all is there, with its heading and time. */
async function review(from: Store, to: Store, accounts: Map<string, Account>): Promise<void> {
  const settle = (account: Account, kind: Fate["kind"], message: string): void => {
    if (account.fate.kind === "copied" || account.fate.kind === "equal") {
      account.fate = { kind, message, entries: 0 };
    }
  };
  const missing = new Set(accounts.keys());
  for await (const row of to.list()) {
    const account = accounts.get(row.session);
    if (account === undefined) continue;
    missing.delete(row.session);
    if (account.mark === markOf(row)) continue;
    if (account.fate.kind === "copied")
      settle(account, "failed", "it did not come out as it went in, or was used since");
    else settle(account, "differs", "its entries are the same there, its heading or its length is not");
  }
  const gone = new Set(accounts.keys());
  for await (const row of from.list()) {
    const account = accounts.get(row.session);
    gone.delete(row.session);
    if (account === undefined) {
      const fate: Fate = { kind: "changed", message: "it was opened meanwhile", entries: 0 };
      accounts.set(row.session, { fate, mark: "" });
    } else if (account.mark !== markOf(row)) {
      settle(account, "changed", "it was written to meanwhile");
    }
  }
  for (const session of gone) settle(accounts.get(session) as Account, "changed", "it was deleted meanwhile");
  for (const session of missing) settle(accounts.get(session) as Account, "failed", "it is not there");
}
