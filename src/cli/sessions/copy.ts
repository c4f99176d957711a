// holdfast sessions copy: copies logs from one store to another, and compares them.
import type { Command } from "commander";
import { invalidOption } from "../../core/errors.ts";
import { copyLogs, type CopyProblem, type CopySummary } from "../../session/copy.ts";
import { openStore, placeOf } from "../../stores/open.ts";
import { createCounterLine } from "../counter-line.ts";
import { counted } from "../../io/plain.ts";

const help = `
Example:
  $ npx holdfast sessions copy sqlite:sessions.db https://example.com/store

The command copies every log. This includes internal logs of agents and servers,
such as the token key, which \`sessions list\` does not show. Run it again to
resume an interrupted copy, or to fetch later changes. It compares existing logs
and never overwrites them. The exit code is 0 only if all logs are equal.`;

export function addCopy(sessions: Command): void {
  sessions
    .command("copy")
    .description("Copy all logs from one store to another, and compare their digests.")
    .argument("<from>", "source store, as in sqlite:FILE")
    .argument("<to>", "target store; its existing logs are kept")
    .option("--json", "print the result as JSON")
    .addHelpText("after", help)
    .action(run);
}

async function run(fromUrl: string, toUrl: string, flags: { json?: boolean }): Promise<void> {
  if ([fromUrl, toUrl].some((url) => url.startsWith("memory:"))) {
    throw invalidOption("memory: cannot be copied, because only one process can read it");
  }
  if (placeOf(fromUrl) === placeOf(toUrl)) throw invalidOption("the two stores are the same; nothing was copied");
  const from = await openStore(fromUrl, { isThere: true });
  const line = createCounterLine("logs copied or compared");
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

/** The text that follows the number of logs, as in "1 log" or "2 logs". */
const advice: Record<CopyProblem["fate"], string> = {
  changed: "changed during the copy; run the same command again to fetch the rest",
  differs:
    "not copied, because the target store has a different log with the same id; delete that log and run the command again",
  failed: "not copied",
};

function inWords({ copied, equal, entries, problems }: CopySummary): string {
  const lines = [
    `copied ${counted(copied, "log")} and found ${equal} already copied; all digests match`,
    // The number includes entries of logs that changed during the copy and do not count as copied.
    `wrote ${counted(entries, "entry", "entries")}`,
  ];
  for (const [fate, what] of Object.entries(advice)) {
    const those = problems.filter((problem) => problem.fate === fate);
    if (those.length > 0) lines.push(`${counted(those.length, "log")} ${what}:`);
    for (const { session, message } of those) lines.push(`  ${session}: ${message}`);
  }
  return `${lines.join("\n")}\n`;
}
