// Prints a conversation: `[who]: text` for every message, tool calls and their results, or every event as JSON.
import type { RunEvent } from "../../agent/invocation.ts";
import { ellipsis } from "../../core/ellipsis.ts";
import type { EventOf, NumberedEvent, Thrown } from "../../core/event.ts";
import { answerText, isFunctionCall, toText, type FunctionCallOutput } from "../../core/model.ts";
import { userText } from "../../rollout/open-conversation.ts";

export interface PrinterOptions {
  out(text: string): void;
  error(text: string): void;
  /** Prints every committed event as a line of JSON instead of text. */
  json: boolean;
  /** Also prints the user's messages. Not used on a terminal, where the user types them. */
  showUser: boolean;
  /** Does not print tool calls. */
  quiet: boolean;
  /** Prints stack traces for errors in the agent's code. */
  debug: boolean;
}

export interface Printer {
  show(event: RunEvent | NumberedEvent): void;
  /** Ends an unfinished line: the run is over. */
  finish(): void;
}

export function createPrinter(options: PrinterOptions): Printer {
  const { out, error, json } = options;
  /** The streamed answer on the current line: the agent's path, and the text printed so far. */
  let open: { path: string; text: string } | undefined;
  // Parallel agents answer at the same time: one answer is streamed, and the other agents' events wait for its end.
  let waiting: NumberedEvent[] = [];
  /** The names of called tools, by path and call id. */
  const called = new Map<string, string>();

  function closeLine(): void {
    if (open) out("\n");
    open = undefined;
  }

  function showPiece({ agent, path, piece }: Extract<RunEvent, { type: "partial" }>): void {
    if (piece.type !== "text" || isOfTool(path) || (open && open.path !== path)) return;
    if (!open) out(`[${agent}]: `);
    open = { path, text: (open?.text ?? "") + piece.text };
    out(piece.text);
  }

  function showWhole(event: NumberedEvent): void {
    const isOpen = open !== undefined && "path" in event && event.path === open.path;
    if (open && !isOpen) return void waiting.push(event);
    const said = readWords(event);
    const isPrinted = isOpen && said?.text === open?.text;
    closeLine();
    if (event.type === "agent.failed" && !isOfTool(event.path)) {
      error(`[${event.agent}] error: ${event.error.code}: ${event.error.message}\n`);
      if (event.thrown) error(`    ${whereThrown(event.thrown)}\n`);
    }
    if (said && !isPrinted && (said.who !== "user" || options.showUser)) out(`[${said.who}]: ${said.text}\n`);
    if (!options.quiet) showTools(event);
    flush();
  }

  const whereThrown = ({ place, stack }: Thrown): string =>
    options.debug && stack !== undefined ? stack.replaceAll("\n", "\n    ") : `in ${place}`;

  function showTools(event: NumberedEvent): void {
    if (!("path" in event) || isOfTool(event.path)) return;
    const { path, agent, items = [] } = event;
    for (const { name, call_id, arguments: given } of items.filter(isFunctionCall)) {
      called.set(`${path} ${call_id}`, name);
      out(`[${agent}] calls ${name} ${shortened(given)}\n`);
    }
    if (event.type !== "tools.answered") return;
    for (const { call_id, output } of items as FunctionCallOutput[]) {
      const name = called.get(`${path} ${call_id}`) ?? "tool";
      called.delete(`${path} ${call_id}`);
      const failed = event.failed?.find(({ call }) => call === call_id);
      out(`[${name}]${failed ? failureText(failed) : `: ${shortened(toText(output))}`}\n`);
      const thrown = event.thrown?.find(({ call }) => call === call_id);
      if (thrown) out(`    ${whereThrown(thrown)}\n`);
    }
  }

  function flush(): void {
    const held = waiting;
    waiting = [];
    for (const event of held) showWhole(event);
  }

  return {
    show(event) {
      if (event.type === "partial") return json ? undefined : showPiece(event);
      if (json) out(`${JSON.stringify(event)}\n`);
      else showWhole(event);
    },
    finish() {
      closeLine();
      flush();
    },
  };
}

const longestText = 1_000;

/** Shortens a text, and indents its later lines, so that none looks like a line of the conversation. */
const shortened = (text: string): string => ellipsis(text, longestText).replaceAll("\n", "\n    ");

const failureText = ({ code, message }: NonNullable<EventOf<"tools.answered">["failed"]>[number]): string =>
  ` failed: ${code}: ${shortened(message)}`;

/** Returns whether an agent runs as a tool, in which case its text is a call's result. */
const isOfTool = (path: string): boolean => path.includes("#");

/** Returns the speaker and the text of an event, if it has any. */
function readWords(event: NumberedEvent): { who: string; text: string } | undefined {
  if (event.type === "invocation.began") return { who: "user", text: userText(event.items) };
  if (!("path" in event) || isOfTool(event.path)) return undefined;
  const text = answerText(event.items ?? []);
  return text === "" ? undefined : { who: event.agent, text };
}
