// A chat on a terminal: a prompt, a line, an answer. Ctrl-C ends the answer, or at the prompt the chat.
import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import type { Conversation } from "./conversation.ts";

export interface ChatOptions extends Conversation {
  input: NodeJS.ReadableStream;
  /** Where the prompt goes, and what is typed. */
  screen: NodeJS.WriteStream | Writable;
  isTerminal: boolean;
  /** What was said before, the newest first: for the arrow keys. */
  history: string[];
  /** An earlier turn was cut short: it goes on first. */
  isCutShort: boolean;
  /** Ends the chat, and the answer that is being given. */
  stopped: AbortSignal;
  /** The second Ctrl-C, for an answer that does not end. */
  abandon(): void;
}

const prompt = "[user]: ";

/** Chats until the user has enough. */
export async function chat(options: ChatOptions): Promise<void> {
  const { input, screen, isTerminal, history, stopped, say } = options;
  const gate = createGate(screen);
  const reader = createInterface({ input, output: gate.output, terminal: isTerminal, history, prompt });
  const typed: string[] = [];
  let answering: AbortController | undefined;
  let isOver = false;
  let wake = (): void => undefined;
  reader.on("line", (line) => {
    // Not to be mixed with the answer: what is typed while it comes is shown at the next prompt.
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
  const stop = (): void => reader.close();
  stopped.addEventListener("abort", stop, { once: true });

  /** The next line; undefined at the end. */
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
    // The shell goes on at the beginning of a line.
    if (line === undefined && isTerminal) screen.write("\n");
    return line;
  }

  async function answer(message: string | undefined): Promise<void> {
    gate.close();
    answering = new AbortController();
    try {
      const turn = await say(message, AbortSignal.any([answering.signal, stopped]));
      if (turn === "cancelled") screen.write("The turn was cut short.\n");
    } finally {
      answering = undefined;
    }
  }

  try {
    if (options.isCutShort) await answer(undefined);
    while (!stopped.aborted) {
      const line = (await nextLine())?.trim();
      if (line === undefined || line === "exit") return;
      if (line !== "") await answer(line);
    }
  } finally {
    reader.close();
    process.off("SIGINT", interrupt);
    stopped.removeEventListener("abort", stop);
  }
}

/** A way to the screen that can be closed. A terminal's width goes with it: readline wraps long lines by it. */
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
