// The example agents as a user runs them: the output of session-state, and the memory of concierge.
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { fileAt } from "../files.ts";
import { ask, newFile, newFolder } from "./run-process.ts";

describe("session-state", () => {
  const example = "examples/session-state";
  const [BA, BM, AM, AA] = ["before_agent", "before_model", "after_model", "after_agent"].map(
    (name) => `${name}_callback_state_key`,
  ) as [string, string, string, string];
  const list = (keys: string[]): string => `[${keys.map((key) => `'${key}'`).join(", ")}]`;

  /** The lines of a callback: the values it sees, the stored ones and the unstored ones. */
  function block(title: string, cached: string[], stored: string[], unstored: string[]): string[] {
    return [
      `===================== In ${title}_callback ==============================`,
      `** Asserting keys are cached in context: ${list(cached)} pass ✅`,
      `** Asserting keys are already persisted in session: ${list(stored)} pass ✅`,
      `** Asserting keys are not persisted in session yet: ${list(unstored)} pass ✅`,
      "============================================================",
    ];
  }

  const expected = [
    "[user]: hello world!",
    ...block("before_agent", [BA], [], [BA]),
    ...block("before_model", [BA, BM], [BA], [BM]),
    ...block("after_model", [BA, BM, AM], [BA], [BM, AM]),
    "[root_agent]: Hello! How can I help you verify something today?",
    "",
    ...block("after_agent", [BA, BM, AM, AA], [BA, BM, AM], [AA]),
    "",
  ].join("\n");

  test.each(["memory", "sqlite"])("LIFECYCLE: shows when writes of callbacks are stored, on %s", async (kind) => {
    const store = kind === "memory" ? "memory:" : `sqlite:${join(await newFolder(), "state.db")}`;
    const flags = ["--replay", `${example}/input.json`, "--store", store, "--session", "shown"];
    expect(await ask("", example, ...flags)).toEqual({ code: 0, stdout: expected, stderr: "" });
  });

  test("its README shows its output", () => {
    expect(fileAt(`${example}/README.md`).text).toContain(`\`\`\`\n${expected}\`\`\`\n`);
  });

  test("answers a second query in the model's place", async () => {
    const input = await newFile("input.json", { state: {}, queries: ["hello world!", "again"] });
    const { code, stdout } = await ask("", example, "--replay", input);
    expect(stdout).toBe(`${expected}[user]: again\n[root_agent]: Sorry, I can only reply once.\n`);
    expect(code).toBe(0);
    const events = await ask("", example, "--replay", input, "--json");
    expect(events.stdout.match(/"type":"model\.answered"/g)).toHaveLength(1);
  });

  test("exits 1 after a failed check, and continues", async () => {
    const input = await newFile("input.json", { state: { [BM]: "stored before" }, queries: ["hello world!"] });
    const { code, stdout } = await ask("", example, "--replay", input);
    expect(code).toBe(1);
    expect(stdout.match(/^\*\* .* fail ❌$/gm)).toEqual([
      `** Asserting keys are not persisted in session yet: ${list([BM])} fail ❌`,
      `** Asserting keys are not persisted in session yet: ${list([BM, AM])} fail ❌`,
    ]);
    expect(stdout).toContain("[root_agent]: Hello!");
  });
});

describe("concierge", () => {
  const example = "examples/concierge";

  test("books, asks before a large expense, and only the guest can allow it", async () => {
    const { code, stdout } = await ask("", example, "--quiet", "--replay", `${example}/input.json`);
    expect(stdout.split("\n")).toEqual([
      "[user]: I like quiet tables by the window",
      "[concierge]: I will remember: quiet tables by the window.",
      "[user]: book a table for 2",
      "[concierge]: A table for 2 is booked; 20 was paid to hold it.",
      "[user]: book a table for 8",
      "[concierge]: Shall I go on? 80 is more than 50; the guest has to say yes first.",
      "[user]: yes, please",
      "[concierge]: A table for 8 is booked; 80 was paid to hold it.",
      "[user]: what do you know about me?",
      "[concierge]: You like quiet tables by the window. You have booked a table for 2 and a table for 8.",
      "",
    ]);
    expect(code).toBe(0);
  });

  test("prints the calls of tools and their results", async () => {
    const { stdout } = await ask("book a table for 2\n", example);
    expect(stdout.split("\n")).toEqual([
      '[concierge] calls book_table {"guests":2}',
      '[book_table]: {"guests":2,"paid":20}',
      "[concierge]: A table for 2 is booked; 20 was paid to hold it.",
      "",
    ]);
  });

  test("does not take a yes for more than it asked, nor twice, nor after a no", async () => {
    const queries = ["yes", "book a table for 8", "no", "yes", "book a table for 9", "yes", "book a table for 9"];
    const { stdout } = await ask(queries.join("\n"), example, "--quiet");
    expect(stdout.split("\n")).toEqual([
      "[concierge]: What can I do for you?",
      "[concierge]: Shall I go on? 80 is more than 50; the guest has to say yes first.",
      "[concierge]: What can I do for you?",
      "[concierge]: Shall I go on? 80 is more than 50; the guest has to say yes first.",
      "[concierge]: Shall I go on? 90 is more than 50; the guest has to say yes first.",
      "[concierge]: A table for 9 is booked; 90 was paid to hold it.",
      "[concierge]: Shall I go on? 90 is more than 50; the guest has to say yes first.",
      "",
    ]);
  });

  test("remembers a guest's first conversation in the second, and tells no other guest", async () => {
    const store = `sqlite:${join(await newFolder(), "concierge.db")}`;
    const say = async (user: string, query: string): Promise<string> =>
      (await ask(`${query}\n`, example, "--quiet", "--store", store, "--user", user)).stdout;
    expect(await say("ann", "I prefer green tea.")).toBe("[concierge]: I will remember: green tea.\n");
    expect(await say("ann", "what do you know about me?")).toBe("[concierge]: You like green tea.\n");
    expect(await say("bob", "what do you know about me?")).toBe("[concierge]: I know nothing of you yet.\n");
  });
});
