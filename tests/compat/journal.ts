// Journals: every commit that version 0.1 made to a store, in order. A journal up to a line is what a kill there would leave.
import { readFileSync } from "node:fs";
import type { Store } from "holdfast";

type Commits = Parameters<Store["append"]>;

/** One append of all of its commits, or a delete. `store` is the part of a tiered store. */
export type Line = { commits: Commits; store?: "hot" | "cold" } | { delete: string; store?: "hot" | "cold" };

export function readJournal(file: string | URL): Line[] {
  const lines = readFileSync(file, "utf8").split("\n").slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Line);
}

/** Fills a store through its API. */
export async function fill(store: Store, lines: Line[]): Promise<void> {
  for (const line of lines) {
    const done = "commits" in line ? await store.append(...asThen(line.commits)) : await store.delete(line.delete);
    if (done !== "ok" && done !== true) throw new Error(`a line of the journal was refused: ${done}`);
  }
}

/** Version 0.1 had no marks: a log was known by the time of its newest entry. */
function asThen(commits: Commits): Commits {
  return commits.map((commit) => ({ ...commit, seen: "", mark: `@${commit.entries.at(-1)!.at}` })) as Commits;
}

/** The sessions of a journal with what they belong to, in the order of opening. Logs of shared state are not sessions. */
export function sessionsIn(lines: Line[]): { session: string; environment: string }[] {
  const commits = lines.flatMap((line) => ("commits" in line ? line.commits : []));
  return commits.flatMap(({ session, version, heading }) =>
    version === 0 && heading && !session.startsWith("holdfast:") ? [{ session, environment: heading.environment }] : [],
  );
}
