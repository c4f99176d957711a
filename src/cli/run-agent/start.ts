// Runs a conversation: opens the store, the session and the input, and closes them together.
import type { Agent } from "../../core/agent.ts";
import type { Conversations, SavedConversation } from "../../core/sessions.ts";
import { createSessions } from "../../session/sessions.ts";
import { openStore } from "../../stores/open.ts";
import { chat } from "./chat.ts";
import { createCommands } from "./commands.ts";
import { createConversation, type Conversation } from "./conversation.ts";
import { cutShort, eventsInForce, openSession, queriesIn } from "../../rollout/open-conversation.ts";
import { readQueries, type Queries } from "../../rollout/conversation-files.ts";
import { writeWhole } from "../../rollout/output.ts";
import { createPrinter } from "./printer.ts";
import { exitCodes, stopOnSignals, type Stopping } from "../../io/stop-on-signals.ts";
import { plain } from "../../io/plain.ts";

export interface RunFlags {
  save?: string;
  session?: string;
  store: string;
  user?: string;
  stream?: boolean;
  json?: boolean;
  quiet?: boolean;
  debug?: boolean;
}

/** The contents of the files that --replay and --resume name. */
export interface Given {
  queries: Queries | undefined;
  /** A saved session to resume. */
  resumed: SavedConversation | undefined;
}

export async function start(agent: Agent, flags: RunFlags, given: Given): Promise<void> {
  const store = await openStore(flags.store);
  const sessions = createSessions({ app: agent.name, store });
  const terminal = createTerminal(flags.json ?? false);
  const isChat = !given.queries && process.stdin.isTTY;
  // In a chat, SIGINT is not handled here, because Ctrl-C ends one answer, or the chat at the prompt.
  const stopping = stopOnSignals({
    names: isChat ? ["SIGTERM", "SIGHUP"] : ["SIGINT", "SIGTERM", "SIGHUP"],
    onStop: (name) => (process.exitCode = exitCodes[name]),
  });
  try {
    const { session: wanted, user } = flags;
    const { queries, resumed: saved } = given;
    const session = await openSession(sessions, { session: wanted, user, state: queries?.state, saved });
    // Prints the id, because the session cannot be resumed without it.
    if (store.persistent && wanted === undefined) terminal.error(`Session ${session}\n`);
    try {
      await talk({ agent, flags, given, sessions, session, isChat, terminal, stopping });
    } finally {
      if (flags.save !== undefined) {
        await writeWhole(flags.save, `${JSON.stringify(await sessions.save(session), null, 2)}\n`);
        terminal.note(`Session saved to ${flags.save}\n`);
      }
    }
  } finally {
    stopping.end();
    await sessions.stop();
    await store.close();
  }
}

interface Talk {
  agent: Agent;
  flags: RunFlags;
  given: Given;
  sessions: Conversations;
  session: string;
  isChat: boolean;
  terminal: Terminal;
  stopping: Stopping;
}

async function talk(options: Talk): Promise<void> {
  const { agent, flags, given, sessions, session, isChat, terminal, stopping } = options;
  // Does not stream if no one reads at a terminal, so that callbacks' output stays in the order of events.
  const { json = false, quiet = false, debug = false, stream = isChat && terminal.isWatched } = flags;
  const before = await eventsInForce(sessions, session);
  const printing = { ...terminal, json, quiet, debug };
  if (given.resumed) {
    const printer = createPrinter({ ...printing, showUser: true });
    for (const event of before) printer.show(event);
  }
  const printer = createPrinter({ ...printing, showUser: given.queries !== undefined });
  const { error, screen } = terminal;
  const { say } = createConversation(session, { agent, sessions, printer, stream: stream && !json, error });
  const unanswered = cutShort(before);
  const isCutShort = unanswered !== undefined;
  if (isCutShort) error(`Resuming an interrupted turn: ${unanswered}\n`);
  if (!isChat) return ask(say, isCutShort, given.queries?.queries, stopping.signal);
  screen.write(`Talking to ${agent.name}. Type /help for commands, or exit to leave.\n`);
  await chat({
    say,
    commands: createCommands(options),
    isCutShort,
    screen,
    input: process.stdin,
    isTerminal: screen.isTTY,
    history: queriesIn(before),
    stopped: stopping.signal,
    abandon: () => process.exit(130),
  });
}

/** Sends the given queries, or the lines of standard input, until a turn fails. */
async function ask(
  say: Conversation["say"],
  isCutShort: boolean,
  queries: string[] | undefined,
  signal: AbortSignal,
): Promise<void> {
  let isDone = !isCutShort || (await say(undefined, signal)) === "done";
  if (isDone) {
    for await (const query of queries ?? readQueries(process.stdin, signal)) {
      isDone = !signal.aborted && (await say(query, signal)) === "done";
      if (!isDone) break;
    }
  }
  if (!isDone || signal.aborted) process.exitCode ??= 1;
}

type Terminal = ReturnType<typeof createTerminal>;

function createTerminal(json: boolean) {
  const { stdout, stderr } = process;
  const out = printTo(stdout);
  const error = printTo(stderr);
  const isWatched = stdout.isTTY;
  return {
    /** Prints the conversation. */
    out,
    /** Prints errors, and other text that is not part of the conversation. */
    error,
    /** Prints notes about the run. With JSON they are printed to standard error, because the output has only JSON. */
    note: json ? error : out,
    /** Whether the output is a terminal. */
    isWatched,
    /** The stream for the prompt: never a file or a pipe for the conversation. */
    screen: isWatched && !json ? stdout : stderr,
  };
}

function printTo(stream: NodeJS.WriteStream): (text: string) => void {
  return (text) => void stream.write(stream.isTTY ? plain(text) : text);
}
