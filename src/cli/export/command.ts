// Exports a rollouts file as lines, and reports the counts.
import { cannotLoad } from "../../core/errors.ts";
import { toChatMessages } from "../../models/chat/messages.ts";
import { exportRollouts } from "../../rollout/export.ts";
import { assertFree, openOutput } from "../line-output.ts";
import { createComplaints, note } from "../rollout-source.ts";

export interface ExportFlags {
  format: "chat" | "sft" | "grpo";
  out?: string;
  minReward: number;
  force?: boolean;
  json?: boolean;
}

export async function runExport(file: string, flags: ExportFlags): Promise<void> {
  const { format, minReward, out } = flags;
  if (out !== undefined) assertFree(out, { force: flags.force ?? false, input: file });
  const counts = { rollouts: 0, left_out: 0, lines: 0 };
  const toMessages: Parameters<typeof exportRollouts>[1]["toMessages"] = (conversation) =>
    toChatMessages(conversation, "developer");
  const output = openOutput(out);
  try {
    const options = { format, minReward, toMessages, onBad: createComplaints() };
    for await (const line of exportRollouts(file, options, counts)) await output.write(JSON.stringify(line));
    if (counts.rollouts + counts.left_out === 0) throw cannotLoad(`${file} has no rollouts`);
    await output.done();
  } finally {
    await output.abandon();
  }
  const about = `${counts.rollouts} rollouts in ${counts.lines} lines, ${counts.left_out} left out`;
  if (out === undefined) note(flags.json ? JSON.stringify(counts) : about);
  else process.stdout.write(flags.json ? `${JSON.stringify({ file: out, ...counts })}\n` : `${out}: ${about}\n`);
}
