// holdfast view: opens the viewer on rollouts files or on a store, or writes it with its data as a folder of files.
import { Option, type Command } from "commander";
import { whole } from "./flags.ts";
import type { ViewFlags } from "./view/command.ts";

const example = `
Examples:
  $ npx holdfast view runs
  $ npx holdfast view runs/scripted.jsonl --environment .
  $ npx holdfast view runs/before.jsonl runs/after.jsonl
  $ npx holdfast view --store sqlite:sessions.db --environment .
  $ npx holdfast view --bundle site runs/*.jsonl

A folder stands for all collections in it. Sessions are read from the store in
the run record, from FILE with .db in place of .jsonl, or from --store. Only
code that --environment names is run; without it episodes can be read and
forked, but not played. A bundle needs no server: open its index.html.`;

const more = (value: string, before: string[] = []): string[] => [...before, value];

export function addView(program: Command): void {
  program
    .command("view")
    .description("Show rollouts and sessions in a browser: episodes, their states step by step, and metrics.")
    .argument("[files...]", "files of rollouts, as JSON lines, or folders of collections or training runs")
    .option("--store <url>", "store of the sessions, as in sqlite:FILE; without files, all its sessions are shown")
    .option("--environment <target>", "code of an environment, to continue episodes; may be repeated", more)
    .option("--model <name>", "model that can continue episodes, as in chat:llama3.2")
    .option("--port <number>", "port to listen on; 0 chooses a free one", whole(0, 65_535), 0)
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .addOption(new Option("--token <text>", "bearer token that /v1 and /metrics require").env("HOLDFAST_TOKEN"))
    .option("--no-open", "do not open a browser")
    .option("--bundle <folder>", "write a folder of files that needs no server, and exit")
    .addHelpText("after", example)
    .action(async (files: string[], flags: ViewFlags) => {
      const { runView } = await import("./view/command.ts");
      await runView(files, flags);
    });
}
