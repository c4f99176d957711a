// copyLogs(): copies all logs from one store into another, entry by entry, and compares the copies by digest.
import { createHash } from "node:crypto";
import { isHoldfastError } from "../core/errors.ts";
import type { Listed, Store } from "../core/store.ts";
import { copyLog, type Fate } from "./copy/log.ts";

/** A log that differs between the stores. */
export interface CopyProblem {
  session: string;
  /**
   * `differs`: the target has a different log with the same id, which is left unchanged. `changed`: the log was
   * written, opened or deleted in the source during the copy; a second copy continues it. `failed`: the log cannot be
   * read, or its copy is not equal.
   */
  fate: "differs" | "changed" | "failed";
  message: string;
}

export interface CopySummary {
  /** `copied`: logs that were written, completely or in part. `equal`: logs that the target already had. */
  copied: number;
  equal: number;
  /** The number of entries written. */
  entries: number;
  problems: CopyProblem[];
}

/** The number of logs copied concurrently. The target creates them one by one, in the order of the source's list. */
const atOnce = 16;

/**
 * Copies every log: the logs of all environments, and the server's own logs. An existing log is left unchanged, and a
 * partly copied log is completed. If a store fails, copying stops: the copied logs are kept, and a second call copies
 * the rest. `onLog` is called after each log.
 */
export async function copyLogs(from: Store, to: Store, onLog?: () => void): Promise<CopySummary> {
  const summary: CopySummary = { copied: 0, equal: 0, entries: 0, problems: [] };
  const accounts = new Map<string, Account>();
  const running: Promise<void>[] = [];
  let turn: Promise<void> = Promise.resolve();

  async function copy(row: Listed, turn: Promise<void>, opened: () => void): Promise<void> {
    const account: Account = { fate: { kind: "failed", entries: 0 }, mark: digestRow(row) };
    // Set before the first await, so that `accounts` keeps the order of the list.
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
      // Prevents an unhandled rejection. `await running.shift()` reports the failure.
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
  /** The digest of the log's row in the source's list. */
  mark: string;
}

/** Returns a short digest of a log's row, to save memory: a store may have millions of logs. */
function digestRow({ version, touched, environment, opened, parent, ended }: Listed): string {
  const about = [version, touched, environment, opened, parent?.session, parent?.version, ended];
  return createHash("sha256").update(JSON.stringify(about)).digest("base64").slice(0, 22);
}

/** Returns `failed` for a corrupt log, so that the other logs are still copied. Any other error stops the copy. */
async function settleFate(copying: Promise<Fate>): Promise<Fate> {
  try {
    return await copying;
  } catch (thrown) {
    if (!isHoldfastError(thrown) || thrown.code !== "store_corrupt") throw thrown;
    return { kind: "failed", entries: 0, message: thrown.message };
  }
}

/**
 * Lists both stores again. Finds logs that changed during the copy, and checks that each log has the same row in both.
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
      settle(account, "failed", "the copy differs from the source, or was changed after the copy");
    else
      settle(account, "differs", "the target has the same entries, but another heading or further entries after them");
  }
  const gone = new Set(accounts.keys());
  for await (const row of from.list()) {
    const account = accounts.get(row.session);
    gone.delete(row.session);
    if (account === undefined) {
      const fate: Fate = { kind: "changed", message: "it was opened in the source during the copy", entries: 0 };
      accounts.set(row.session, { fate, mark: "" });
    } else if (account.mark !== digestRow(row)) {
      settle(account, "changed", "it was changed in the source during the copy");
    }
  }
  for (const session of gone)
    settle(accounts.get(session) as Account, "changed", "it was deleted from the source during the copy");
  for (const session of missing) settle(accounts.get(session) as Account, "failed", "it is missing from the target");
}
