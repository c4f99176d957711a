// holdfast run: a conversation with an agent, on a terminal, from a pipe or from a file.
import type { Command } from "commander";
import { invalidOption } from "../core/errors.ts";
import type { Replay } from "./run/files.ts";
import type { RunFlags } from "./run/start.ts";
import { endProcess } from "../telemetry/process.ts";

interface Flags extends RunFlags {
  replay?: string;
  resume?: string;
  model?: string;
}

const example = `
Examples:
  $ npx holdfast run .
  $ npx holdfast run . --session trip --user ann \\
      --store sqlite:sessions.db
  $ npx holdfast run . --replay queries.json
  $ echo "book a table for 2" | npx holdfast run . --save trip.json
  $ npx holdfast run . --resume trip.json --model openai:gpt-5.1

In a chat, /state shows the state, /tools the tools and /help all commands.
Ctrl-C interrupts an answer; at the prompt, Ctrl-C, Ctrl-D or exit ends the
chat. With piped input, every line is a query. A file of queries is
{"state": {…}, "queries": ["…"]}. A saved session given to --replay is run again
and compared. From a file or a pipe, the first turn that fails ends the run, and
the exit code is 1. Models are scripted, random, random:SEED, openai:NAME,
chat:NAME, anthropic:NAME and recorded:FILE.`;

export function addRun(program: Command): void {
  program
    .command("run")
    .description("Talk to an agent: on a terminal, through a pipe, or with the queries of a file.")
    .argument("<agent>", "a folder with agent.ts, a file or a package that exports an agent")
    .option("--replay <file>", "ask the queries of a file, or run a saved session again and compare")
    .option("--resume <file>", "show a saved session and continue it")
    .option("--save <file>", "save the session when the run ends")
    .option("--session <id>", "continue this session of the store; a new id opens one")
    .option(
      "--store <url>",
      "where sessions live: memory:, sqlite:FILE, redis://…, postgres://…, s3://…, http://…",
      "memory:",
    )
    .option("--user <name>", 'the user of the session; by default "user"')
    .option("--model <name>", "the model of every agent, in place of its own")
    .option("--stream", "print answers while they are written; the default in a chat")
    .option("--no-stream", "print answers when they are whole")
    .option("--json", "print every committed event as a line of JSON")
    .option("--quiet", "do not print calls of tools and their results")
    .addHelpText("after", example)
    .action((target: string, _: Flags, command: Command) => run(target, command.optsWithGlobals()));
}

async function run(target: string, flags: Flags): Promise<void> {
  const { replay, resume, model, save, json = false } = flags;
  if (replay !== undefined && resume !== undefined) {
    throw invalidOption("--replay and --resume cannot be used together");
  }
  const { assertWritable, readReplay, readSaved } = await import("./run/files.ts");
  if (save !== undefined) await assertWritable(save);
  const { queries, saved }: Replay = replay === undefined ? {} : await readReplay(replay);
  if (saved) assertBare(flags);
  const resumed = resume === undefined ? undefined : await readSaved(resume);
  const { loadAgent } = await import("../rollout/load.ts");
  const own = await loadAgent(target);
  const { withModel } = await import("../models/by-name.ts");
  const agent = model === undefined ? own : await withModel(own, model);
  if (saved) {
    const { compare } = await import("./run/compare.ts");
    await compare(agent, saved, json);
  } else {
    const { start } = await import("./run/start.ts");
    await start(agent, flags, { queries, resumed });
  }
  await endProcess();
}

/** Refuses flags that contradict a replay: a saved session runs again in memory, with its models' recorded answers. */
function assertBare({ save, session, user, model, store }: Flags): void {
  const given = Object.entries({ save, session, user, model, store: store === "memory:" ? undefined : store });
  const flag = given.find(([, value]) => value !== undefined)?.[0];
  if (flag === undefined) return;
  const message = `--${flag} cannot be used with a saved session in --replay, which runs again unchanged; use --resume`;
  throw invalidOption(message);
}
