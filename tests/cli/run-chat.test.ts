// The chat on a terminal and its streamed output, with streams instead of a terminal.
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { chat } from "../../src/cli/run-agent/chat.ts";
import { createPrinter } from "../../src/cli/run-agent/printer.ts";
import type { Turn } from "../../src/cli/run-agent/conversation.ts";
import type { RunEvent } from "../../src/agent/invocation.ts";

/** A user at a terminal, and the messages the agent received. */
function sit(options: { isCutShort?: boolean; history?: string[] } = {}) {
  const input = new PassThrough();
  const screen = new PassThrough();
  const stopping = new AbortController();
  const asked: (string | undefined)[] = [];
  const shown: string[] = [];
  let abandoned = 0;
  let finish: ((turn: Turn) => void) | undefined;
  screen.on("data", (chunk) => shown.push(String(chunk)));
  const ended = chat({
    input,
    screen,
    isTerminal: true,
    history: options.history ?? [],
    isCutShort: options.isCutShort ?? false,
    commands: new Map([["state", async () => '{"room": 12}']]),
    stopped: stopping.signal,
    abandon: () => void abandoned++,
    async say(message, signal) {
      asked.push(message);
      if (message !== "slow" && message !== "stuck") return "done";
      return new Promise((resolve) => {
        finish = resolve;
        if (message === "slow") signal.addEventListener("abort", () => resolve("cancelled"));
      });
    },
  });
  onTestFinished(() => {
    finish?.("done");
    stopping.abort();
  });
  return {
    asked,
    ended,
    stop: () => stopping.abort(),
    abandoned: () => abandoned,
    /** The screen text without cursor movements. */
    screen: () => stripVTControlCharacters(shown.join("")).replaceAll("\r", ""),
    async type(text: string) {
      input.write(text);
      await sleep(20);
    },
    answer: () => finish?.("done"),
  };
}

describe("at the prompt", () => {
  test("a line is a message, an empty one is not, and exit ends", async () => {
    const { asked, ended, screen, type } = sit();
    await type("hello\r");
    await type("  \r");
    await type(" there \r");
    await type("exit\r");
    await ended;
    expect(asked).toEqual(["hello", "there"]);
    expect(screen()).toContain("[user]: hello\n");
  });

  test("a word with a slash is a command, and any other line is a message", async () => {
    const { asked, ended, screen, type } = sit();
    await type("/state\r");
    await type("/stat\r");
    await type("/etc/hosts is broken\r");
    await type("exit\r");
    await ended;
    expect(asked).toEqual(["/etc/hosts is broken"]);
    expect(screen()).toContain('[user]: /state\n{"room": 12}\n[user]: /stat\n/stat is not a command; /help lists');
  });

  test.each([
    ["Ctrl-C", "\x03"],
    ["Ctrl-D", "\x04"],
  ])("%s ends, and leaves the cursor at the start of a line", async (_, key) => {
    const { asked, ended, screen, type } = sit();
    await type(key);
    await ended;
    expect(asked).toEqual([]);
    expect(screen()).toBe("[user]: \n");
  });

  test("the arrow keys recall earlier messages", async () => {
    const { asked, ended, type } = sit({ history: ["newest", "oldest"] });
    await type("\x1b[A\r");
    await type("\x1b[A\x1b[A\r");
    await type("exit\r");
    await ended;
    expect(asked).toEqual(["newest", "oldest"]);
  });
});

describe("while the agent answers", () => {
  test("Ctrl-C ends the turn, and the chat continues", async () => {
    const { asked, ended, screen, type } = sit();
    await type("slow\r");
    await type("\x03");
    await type("again\r");
    await type("\x03");
    await ended;
    expect(asked).toEqual(["slow", "again"]);
    expect(screen()).toContain("The answer was interrupted.\n[user]: again");
  });

  test("a second Ctrl-C ends the chat if the turn does not end", async () => {
    const { abandoned, type } = sit();
    await type("stuck\r");
    await type("\x03");
    expect(abandoned()).toBe(0);
    await type("\x03");
    expect(abandoned()).toBe(1);
  });

  test("typed text is not mixed into the answer: whole lines come next, half a line stays at the prompt", async () => {
    const { answer, asked, ended, screen, type } = sit();
    await type("slow\rnext\rhal");
    expect(screen()).toBe("[user]: slow\n");
    answer();
    await sleep(20);
    expect(asked).toEqual(["slow", "next"]);
    expect(screen()).toBe("[user]: slow\n[user]: next\n[user]: hal");
    await type("f\r");
    await type("\x04");
    await ended;
    expect(asked).toEqual(["slow", "next", "half"]);
  });

  test("a signal ends the turn and the chat", async () => {
    const { asked, ended, stop, type } = sit();
    await type("slow\r");
    stop();
    await ended;
    expect(asked).toEqual(["slow"]);
  });
});

test("an interrupted turn resumes before the first prompt", async () => {
  const { asked, ended, type } = sit({ isCutShort: true });
  await type("exit\r");
  await ended;
  expect(asked).toEqual([undefined]);
});

describe("streamed answers", () => {
  const about = { invocation: "i", agent: "a", path: "a", at: 0, version: 1 };
  const piece = (text: string, path = "a"): RunEvent => ({
    type: "partial",
    invocation: "i",
    agent: path,
    path,
    piece: { type: "text", text },
  });
  const answered = (text: string, path = "a"): RunEvent => ({
    ...about,
    type: "model.answered",
    agent: path,
    path,
    items: [{ type: "message", role: "assistant", content: text }],
  });
  const failed: RunEvent = {
    ...about,
    type: "agent.failed",
    step: "model",
    error: { code: "model_failed", message: "gone" },
  };

  function printed(...events: RunEvent[]): string {
    return printedWith(false, ...events);
  }

  function printedWith(quiet: boolean, ...events: RunEvent[]): string {
    let text = "";
    const out = (more: string): void => void (text += more);
    const printer = createPrinter({ out, error: out, json: false, showUser: false, quiet, debug: false });
    for (const event of events) printer.show(event);
    printer.finish();
    return text;
  }

  test("are not printed twice", () => {
    expect(printed(piece("Hel"), piece("lo"), answered("Hello"), answered("More"))).toBe("[a]: Hello\n[a]: More\n");
  });

  test("are printed again if a callback changed them", () => {
    expect(printed(piece("Hello"), answered("Bye"))).toBe("[a]: Hello\n[a]: Bye\n");
  });

  test("end with a line break if the model fails or the turn is interrupted", () => {
    expect(printed(piece("Hel"), failed)).toBe("[a]: Hel\n[a] error: model_failed: gone\n");
    expect(printed(piece("Hel"))).toBe("[a]: Hel\n");
  });

  test("are not interleaved for parallel agents", () => {
    const both = [piece("He", "a"), piece("By", "b"), piece("llo", "a"), answered("Bye", "b"), answered("Hello", "a")];
    expect(printed(...both)).toBe("[a]: Hello\n[b]: Bye\n");
  });

  test("have the calls of tools and their results between them, unless --quiet hides these", () => {
    const call: RunEvent = {
      ...about,
      type: "model.answered",
      items: [
        { type: "message", role: "assistant", content: "Let me see." },
        { type: "function_call", call_id: "c1", name: "look", arguments: '{"at":1}' },
        { type: "function_call", call_id: "c2", name: "book", arguments: "{}" },
      ],
    };
    const results: RunEvent = {
      ...about,
      type: "tools.answered",
      items: [
        { type: "function_call_output", call_id: "c1", output: "two\nlines" },
        { type: "function_call_output", call_id: "c2", output: "unread" },
      ],
      failed: [{ call: "c2", code: "tool_failed", message: "no table" }],
    };
    const shown = printed(piece("Let me see."), call, results, answered("Done"));
    expect(shown.split("\n")).toEqual([
      "[a]: Let me see.",
      '[a] calls look {"at":1}',
      "[a] calls book {}",
      "[look]: two",
      "    lines",
      "[book] failed: tool_failed: no table",
      "[a]: Done",
      "",
    ]);
    expect(printedWith(true, call, results, answered("Done"))).toBe("[a]: Let me see.\n[a]: Done\n");
  });

  test("exclude those of an agent used as a tool", () => {
    expect(printed(piece("Hi", "a#1/b"), answered("Hi", "a#1/b"), answered("Done"))).toBe("[a]: Done\n");
  });
});
