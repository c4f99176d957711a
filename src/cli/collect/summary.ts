// Formats the summary of a collection: its counts, its metrics and the next commands.
import type { Collected } from "../../rollout/collect.ts";
import type { CollectionMetrics } from "../../rollout/metrics.ts";
import { metricLines } from "../metrics/lines.ts";

export function formatSummary(
  { before, scored, failed, stopped }: Collected,
  metrics: CollectionMetrics,
  { out, total }: { out: string; total: number },
): string {
  const counts = [
    `${scored} of ${total} rollouts scored`,
    failed > 0 && `${failed} failed`,
    before > 0 && `${before} were there before`,
  ];
  const look = [
    `Look at one: holdfast show ${quoted(out)} --task 0 --repeat 0`,
    `or at all: holdfast view ${quoted(out)}`,
  ];
  const next = stopped ? [`Go on with: ${againText()}`] : look;
  return `${[`${counts.filter(Boolean).join(", ")}: ${out}`, ...metricLines(metrics), "", ...next].join("\n")}\n`;
}

/** Returns the command that resumes this one. */
function againText(): string {
  const given = process.argv.slice(2).filter((word) => word !== "--resume");
  // Hide a password in the URL of a store: output is kept in logs.
  const shown = given.map((word) => word.replace(/(:\/\/[^:@/?]*:)[^@/?]+@/, "$1PASSWORD@"));
  return ["holdfast", ...shown, "--resume"].map(quoted).join(" ");
}

/** Quotes a word for a shell. */
const quoted = (word: string): string => (/^[\w./:@=,+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
