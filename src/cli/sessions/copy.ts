// holdfast sessions copy: copies logs from one store to another, and compares them.
import { existsSync, realpathSync } from "node:fs";
import { resolve } from "node:path";
import type { Command } from "commander";
import { invalidOption } from "../../core/errors.ts";
import type { CopyProblem, CopySummary } from "../../session/copy.ts";
import { createCounterLine } from "../counter-line.ts";
import { counted } from "../plain.ts";

const help = `
Example:
  $ npx holdfast sessions copy sqlite:sessions.db https://example.com/store

Copies every log: sessions, and the logs that agents and servers keep beside
them, such as the key of tokens, which \`sessions list\` does not show. Run it
again to resume an interrupted copy and to fetch later changes. Existing logs
are compared, never overwritten. The exit code is 0 only if all logs are equal.`;

export function addCopy(sessions: Command): void {
  sessions
    .command("copy")
    .description("Copy all logs of a store into another one, and compare them by digest.")
    .argument("<from>", "a store, as in sqlite:FILE")
    .argument("<to>", "another store; its existing logs stay")
    .option("--json", "print the result as JSON")
    .addHelpText("after", help)
    .action(run);
}

async function run(fromUrl: string, toUrl: string, flags: { json?: boolean }): Promise<void> {
  if ([fromUrl, toUrl].some((url) => url.startsWith("memory:"))) {
    throw invalidOption("memory: belongs to one process, so it cannot be copied");
  }
  if (toPlace(fromUrl) === toPlace(toUrl)) throw invalidOption("the two stores are the same; nothing was copied");
  const { openStore } = await import("../../stores/open.ts");
  const { copyLogs } = await import("../../session/copy.ts");
  const from = await openStore(fromUrl, { isThere: true });
  const line = createCounterLine("logs compared and copied");
  try {
    const to = await openStore(toUrl);
    try {
      const summary = await copyLogs(from, to, () => line.add());
      line.end();
      process.stdout.write(flags.json ? `${JSON.stringify(summary)}\n` : inWords(summary));
      if (summary.problems.length > 0) process.exitCode = 1;
    } finally {
      line.end();
      await to.close();
    }
  } finally {
    await from.close();
  }
}

/** Returns a text that is equal for two URLs to the same store, as far as URLs show that. */
function toPlace(url: string): string {
  const [, file] = /^sqlite:(.*)$/.exec(url) ?? [];
  if (file !== undefined) return `sqlite:${existsSync(file) ? realpathSync(file) : resolve(file)}`;
  if (!URL.canParse(url)) return url;
  const { protocol, host, pathname, search } = new URL(url);
  return `${protocol}//${host}${pathname.replace(/\/+$/, "")}${search}`;
}

/** Appended to "1 log" or "2 logs". */
const advice: Record<CopyProblem["fate"], string> = {
  changed: "changed meanwhile; run the same command again to fetch the rest",
  differs: "with another content there, left as it is; delete it there to copy the one from here",
  failed: "not copied",
};

function inWords({ copied, equal, entries, problems }: CopySummary): string {
  const lines = [
    `copied ${counted(copied, "log")} and found ${equal} there already, all compared by digest`,
    // Includes entries of logs that changed in the meantime, which do not count as copied.
    `wrote ${counted(entries, "entry", "entries")}`,
  ];
  for (const [fate, what] of Object.entries(advice)) {
    const those = problems.filter((problem) => problem.fate === fate);
    if (those.length > 0) lines.push(`${counted(those.length, "log")} ${what}:`);
    for (const { session, message } of those) lines.push(`  ${session}: ${message}`);
  }
  return `${lines.join("\n")}\n`;
}
