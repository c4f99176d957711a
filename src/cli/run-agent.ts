// holdfast run: a conversation with an agent, on a terminal, from a pipe or from a file.
import type { Command } from "commander";
import { replaySession } from "../agent/replay.ts";
import type { Agent } from "../core/agent.ts";
import { invalidOption } from "../core/errors.ts";
import type { SavedConversation } from "../core/sessions.ts";
import { withModel } from "../models/by-name.ts";
import { assertWritable, readReplay, readSaved, type Replay } from "../rollout/conversation-files.ts";
import { loadAgent } from "../rollout/load.ts";
import { createSessions } from "../session/sessions.ts";
import { memoryStore } from "../stores/memory.ts";
import { endProcess } from "../telemetry/process.ts";
import { print } from "../io/plain.ts";
import { start, type RunFlags } from "./run-agent/start.ts";

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

In a chat, type /help for the list of commands. Ctrl-C interrupts an answer. At
the prompt, Ctrl-C, Ctrl-D or exit ends the chat.

With piped input, every line is a query. A query file looks like
{"state": {…}, "queries": ["…"]}. In both cases, the run ends at the first turn
that fails, with exit code 1. If --replay names a saved session, the session
runs again and its events are compared.

Models: scripted, random, random:SEED, openai:NAME, chat:NAME, anthropic:NAME
and recorded:FILE.`;

export function add(program: Command): void {
  program
    .command("run")
    .description("Talk to an agent in the terminal, through a pipe, or with queries from a file.")
    .argument("<agent>", "a folder with agent.ts, a file or a package that exports an agent")
    .option("--replay <file>", "send the queries in a file, or run a saved session again and compare its events")
    .option("--resume <file>", "show a saved session and continue it")
    .option("--save <file>", "save the session when the run ends")
    .option("--session <id>", "continue this session in the store, or open it if it does not exist")
    .option(
      "--store <url>",
      "session store: memory:, sqlite:FILE, redis://…, postgres://…, s3://…, http://…",
      "memory:",
    )
    .option("--user <name>", "the session's user (default: user)")
    .option("--model <name>", "model for every agent; replaces the model in its code")
    .option("--stream", "print answers as they arrive (default in a chat)")
    .option("--no-stream", "print each answer when it is complete")
    .option("--json", "print each committed event as one line of JSON")
    .option("--quiet", "do not print tool calls and their results")
    .addHelpText("after", example)
    .action((target: string, _: Flags, command: Command) => run(target, command.optsWithGlobals()));
}

async function run(target: string, flags: Flags): Promise<void> {
  const { replay, resume, model, save, json = false } = flags;
  if (replay !== undefined && resume !== undefined) {
    throw invalidOption("--replay and --resume cannot be used together");
  }
  if (save !== undefined) await assertWritable(save);
  const { queries, saved }: Replay = replay === undefined ? {} : await readReplay(replay);
  if (saved) assertBare(flags);
  const resumed = resume === undefined ? undefined : await readSaved(resume);
  const own = await loadAgent(target);
  const agent = model === undefined ? own : await withModel(own, model);
  if (saved) await compare(agent, saved, json);
  else await start(agent, flags, { queries, resumed });
  await endProcess();
}

/** Runs a saved session again, in memory, and reports the first difference. */
async function compare(agent: Agent, saved: SavedConversation, json: boolean): Promise<void> {
  const store = memoryStore();
  const sessions = createSessions({ app: saved.app, store });
  try {
    const result = await replaySession(agent, saved, sessions);
    if (!result.same) process.exitCode = 1;
    const inWords = result.same ? `${result.events} events, all identical` : result.message;
    print(json ? JSON.stringify(result) : inWords);
  } finally {
    await sessions.stop();
    await store.close();
  }
}

/** Refuses flags that contradict a replay: a saved session runs again in memory, with its models' recorded answers. */
function assertBare({ save, session, user, model, store }: Flags): void {
  const given = Object.entries({ save, session, user, model, store: store === "memory:" ? undefined : store });
  const flag = given.find(([, value]) => value !== undefined)?.[0];
  if (flag === undefined) return;
  const message = `--${flag} cannot be used when --replay names a saved session, because a replay repeats the session as it was saved; use --resume instead`;
  throw invalidOption(message);
}
