// Formats a collection's summary: its counts, why rollouts failed, its metrics and the next commands.
import type { Collected } from "../../rollout/collect.ts";
import type { CollectionMetrics } from "../../rollout/metrics.ts";
import { outputPaths } from "../../rollout/output.ts";
import { hideSecretsInWord } from "../../io/hide-secrets.ts";
import { metricLines } from "../metrics/lines.ts";
import { plainLine } from "../../io/plain.ts";
import type { Progress } from "./progress.ts";

interface SummaryOptions {
  out: string;
  total: number;
  /** The tokens of failed attempts that were repeated. Default 0. */
  repeated?: number;
  reasons: ReturnType<Progress["reasons"]>;
}

export function formatSummary(collected: Collected, metrics: CollectionMetrics, options: SummaryOptions): string {
  const { before, scored, failed } = collected;
  const { out, total, repeated = 0, reasons } = options;
  const counts = [
    `${before + scored} of ${total} rollouts scored${before > 0 ? ` (${scored} in this run, ${before} earlier)` : ""}`,
    failed > 0 && `${failed} failed`,
  ];
  const lines = [
    `${counts.filter(Boolean).join(", ")}: ${out}`,
    ...(reasons.failures.length > 0 ? ["failures", ...reasons.failures, `  all: ${outputPaths(out).failures}`] : []),
    ...(reasons.errors.length > 0 ? ["errors thrown by your code", ...reasons.errors] : []),
    ...metricLines(metrics),
    ...(repeated > 0 ? [`and ${repeated} tokens in failed attempts that were repeated`] : []),
    "",
    ...nextLines(collected, out),
  ];
  return `${lines.join("\n")}\n`;
}

function nextLines({ scored, before, failed, stopped, gaveUp }: Collected, out: string): string[] {
  const look = (flag: string): string => `npx holdfast show ${quoted(out)}${flag}`;
  if (gaveUp) {
    return [
      `Stopped: ${gaveUp.rollouts} rollouts in a row failed for the same reason, and the rest would probably fail too:`,
      `  ${plainLine(gaveUp.reason)}`,
      `Fix the cause, then continue with: ${againText()}`,
      "or add --keep-going to run the rest anyway",
    ];
  }
  if (stopped) return [`Continue with: ${againText()}`];
  return [
    ...(scored + before > 0 ? [`Show the first one: ${look("")}`] : []),
    ...(failed > 0 ? [`Show a failure: ${look(" --failed")}`] : []),
    `View all: npx holdfast view ${quoted(out)}`,
  ];
}

/** Returns the command that resumes this collection. */
export function againText(): string {
  const given = process.argv.slice(2).filter((word) => word !== "--resume");
  // Secrets are hidden, because output is kept in logs.
  const shown = given.map((word) => hideSecretsInWord(word, "SECRET"));
  return ["npx", "holdfast", ...shown, "--resume"].map(quoted).join(" ");
}

/** Quotes a word for a shell. */
const quoted = (word: string): string => (/^[\w./:@=,+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
