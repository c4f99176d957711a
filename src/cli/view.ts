// holdfast view: opens the viewer on files of rollouts or on a store, or writes it with its data as a folder of files.
import { Option, type Command } from "commander";
import { whole } from "./flags.ts";
import type { ViewFlags } from "./view/command.ts";

const example = `
Examples:
  $ npx holdfast view runs/scripted.jsonl
  $ npx holdfast view runs/scripted.jsonl --environment .
  $ npx holdfast view runs/before.jsonl runs/after.jsonl
  $ npx holdfast view --store sqlite:sessions.db --environment .
  $ npx holdfast view --bundle site runs/*.jsonl

The sessions of a file are read from FILE with .db in place of .jsonl, or from
--store. Only code that is named with --environment runs. Without it, episodes
can be looked at and forked, but not played; the line of each environment says
how to name its code. A bundle needs no server: open its index.html.`;

const more = (value: string, before: string[] = []): string[] => [...before, value];

export function addView(program: Command): void {
  program
    .command("view")
    .description("Look at rollouts and sessions in a browser: episodes, their states step by step, figures of runs.")
    .argument("[files...]", "rows of rollouts, as JSON lines")
    .option("--store <url>", "where the sessions are, as in sqlite:FILE; alone, all sessions in it are shown")
    .option("--environment <target>", "the code of an environment, to play on; may be given again", more)
    .option("--model <name>", "a model that can play on, as in chat:llama3.2")
    .option("--port <number>", "where to listen; 0 picks a free port", whole(0, 65_535), 0)
    .option("--host <address>", "the address to listen on", "127.0.0.1")
    .addOption(new Option("--token <text>", "the bearer token that /v1 and /metrics want").env("HOLDFAST_TOKEN"))
    .option("--no-open", "do not open a browser")
    .option("--bundle <folder>", "write a folder of files that needs no server, and end")
    .addHelpText("after", example)
    .action(async (files: string[], flags: ViewFlags) => {
      const { runView } = await import("./view/command.ts");
      await runView(files, flags);
    });
}
