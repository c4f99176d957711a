// Chats on a terminal: a prompt, a line, an answer. Ctrl-C ends the answer; at the prompt, it ends the chat.
import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { onAbort } from "../../io/abort.ts";
import { plain } from "../../io/plain.ts";
import type { Conversation } from "./conversation.ts";

export interface ChatOptions extends Conversation {
  input: NodeJS.ReadableStream;
  /** Shows the prompt and the typed text. */
  screen: NodeJS.WriteStream | Writable;
  isTerminal: boolean;
  /** Earlier messages, the newest first, for the arrow keys. */
  history: string[];
  /** Whether the last turn was interrupted. It is resumed before the first prompt. */
  isCutShort: boolean;
  /** The commands of the chat, such as /help, by name without the slash. Each returns the text to show. */
  commands: ReadonlyMap<string, () => string | Promise<string>>;
  /** Ends the chat and a running answer. */
  stopped: AbortSignal;
  /** Called at the second Ctrl-C, if the answer has still not ended. */
  abandon(): void;
}

const prompt = "[user]: ";

/** Chats until the user ends it. */
export async function chat(options: ChatOptions): Promise<void> {
  const { input, screen, isTerminal, history, stopped, say } = options;
  const gate = createGate(screen);
  const reader = createInterface({ input, output: gate.output, terminal: isTerminal, history, prompt });
  const typed: string[] = [];
  let answering: AbortController | undefined;
  let isOver = false;
  let wake = (): void => undefined;
  reader.on("line", (line) => {
    // Text typed during an answer is shown at the next prompt, so that it does not mix with the answer.
    gate.close();
    typed.push(line);
    wake();
  });
  reader.on("close", () => {
    isOver = true;
    wake();
  });
  const interrupt = (): void => {
    if (!answering) reader.close();
    else if (answering.signal.aborted) options.abandon();
    else answering.abort();
  };
  reader.on("SIGINT", interrupt);
  process.on("SIGINT", interrupt);
  const stopListening = onAbort(stopped, () => reader.close());

  /** Returns the next line; undefined when the chat ends. */
  async function nextLine(): Promise<string | undefined> {
    const early = typed.shift();
    if (early !== undefined) {
      screen.write(`${prompt}${early}\n`);
      return early;
    }
    if (isOver) return undefined;
    gate.open();
    reader.prompt(true);
    await new Promise<void>((resolve) => (wake = resolve));
    const line = typed.shift();
    // Let the shell's prompt start on a new line.
    if (line === undefined && isTerminal) screen.write("\n");
    return line;
  }

  async function answer(message: string | undefined): Promise<void> {
    gate.close();
    answering = new AbortController();
    try {
      const turn = await say(message, AbortSignal.any([answering.signal, stopped]));
      if (turn === "cancelled") screen.write("The answer was interrupted.\n");
    } finally {
      answering = undefined;
    }
  }

  async function obey(line: string): Promise<string> {
    const command = options.commands.get(line.slice(1));
    return command ? plain(await command()) : `${plain(line)} is not a command; /help lists the commands`;
  }

  try {
    if (options.isCutShort) await answer(undefined);
    while (!stopped.aborted) {
      const line = (await nextLine())?.trim();
      if (line === undefined || line === "exit") return;
      if (isCommand(line)) screen.write(`${await obey(line)}\n`);
      else if (line !== "") await answer(line);
    }
  } finally {
    reader.close();
    process.off("SIGINT", interrupt);
    stopListening();
  }
}

/** A message may start with a slash too, as in "/etc/hosts is broken". */
const isCommand = (line: string): boolean => /^\/[a-z]+$/.test(line);

/** Creates a stream to the screen that can be closed. It reports the terminal's width, which readline needs to wrap lines. */
function createGate(screen: NodeJS.WriteStream | Writable) {
  let isOpen = true;
  const output = new Writable({
    write(chunk: Buffer, _, done) {
      if (isOpen) screen.write(chunk);
      done();
    },
  });
  Object.defineProperty(output, "columns", { get: () => (screen as Partial<NodeJS.WriteStream>).columns });
  screen.on("resize", () => output.emit("resize"));
  return { output, open: () => void (isOpen = true), close: () => void (isOpen = false) };
}
