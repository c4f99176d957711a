// copyLogs(): copies all logs from one store into another, entry by entry, and compares them by digest.
import { createHash } from "node:crypto";
import { isHoldfastError } from "../core/errors.ts";
import type { Listed, Store } from "../core/store.ts";
import { copyLog, type Fate } from "./copy/log.ts";

/** A log that differs between the stores. */
export interface CopyProblem {
  session: string;
  /**
   * `differs`: the other store has a different log under this name, and it is left as it is. `changed`: the log was
   * written, opened or deleted in the meantime; a second copy continues it. `failed`: the log cannot be read, or its
   * copy is not equal.
   */
  fate: "differs" | "changed" | "failed";
  message: string;
}

export interface CopySummary {
  /** Logs that were written, completely or in part, and logs that already existed. */
  copied: number;
  equal: number;
  /** The number of entries written. */
  entries: number;
  problems: CopyProblem[];
}

/** The number of logs read at once. They are opened one by one, to preserve the order of opening. */
const atOnce = 16;

/**
 * Copies every log: the logs of all environments, and the server's own. Existing logs are left as they are, and a
 * partly copied log is continued. If a store fails, the copy ends. Logs that were already copied are kept, and a second
 * copy continues. `onLog` is called for each log.
 */
export async function copyLogs(from: Store, to: Store, onLog?: () => void): Promise<CopySummary> {
  const summary: CopySummary = { copied: 0, equal: 0, entries: 0, problems: [] };
  const accounts = new Map<string, Account>();
  const running: Promise<void>[] = [];
  let turn: Promise<void> = Promise.resolve();

  async function copy(row: Listed, turn: Promise<void>, opened: () => void): Promise<void> {
    const account: Account = { fate: { kind: "failed", entries: 0 }, mark: digestRow(row) };
    // In the order of the list.
    accounts.set(row.session, account);
    try {
      account.fate = await settleFate(copyLog({ from, to, row, turn, opened }));
      summary.entries += account.fate.entries;
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
      // The await below reports a failure.
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
  /** Digest of its row in the list. */
  mark: string;
}

/** Digests a log's row in the list to a few bytes, because a store may have millions of logs. */
function digestRow({ version, touched, environment, opened, parent, ended }: Listed): string {
  const about = [version, touched, environment, opened, parent?.session, parent?.version, ended];
  return createHash("sha256").update(JSON.stringify(about)).digest("base64").slice(0, 22);
}

/** Reports a corrupt log, so that the other logs are still copied. A failing store ends the copy. */
async function settleFate(copying: Promise<Fate>): Promise<Fate> {
  try {
    return await copying;
  } catch (thrown) {
    if (!isHoldfastError(thrown) || thrown.code !== "store_corrupt") throw thrown;
    return { kind: "failed", entries: 0, message: thrown.message };
  }
}

/**
 * Reads both lists again. Finds logs that changed in the meantime, and checks that all logs were copied with heading
 * and time.
 */
async function review(from: Store, to: Store, accounts: Map<string, Account>): Promise<void> {
  const settle = (account: Account, kind: Fate["kind"], message: string): void => {
    if (account.fate.kind === "copied" || account.fate.kind === "equal") account.fate = { kind, message, entries: 0 };
  };
  const missing = new Set(accounts.keys());
  for await (const row of to.list()) {
    const account = accounts.get(row.session);
    if (account === undefined) continue;
    missing.delete(row.session);
    if (account.mark === digestRow(row)) continue;
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
    } else if (account.mark !== digestRow(row)) {
      settle(account, "changed", "it was written to meanwhile");
    }
  }
  for (const session of gone) settle(accounts.get(session) as Account, "changed", "it was deleted meanwhile");
  for (const session of missing) settle(accounts.get(session) as Account, "failed", "it is not there");
}
