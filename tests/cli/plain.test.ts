// Messages about foreign files cannot control the terminal.
import { expect, onTestFinished, test, vi } from "vitest";
import { plain, plainLine } from "../../src/io/plain.ts";
import { note } from "../../src/cli/notes.ts";
import { run } from "../e2e/serve-process.ts";

const hostile = "a\u001b]0;title\u0007\u009b31m\r\tb\n";

test("control characters are written as their codes", () => {
  expect(plain(hostile)).toBe("a\\u001b]0;title\\u0007\\u009b31m\\u000d\tb\n");
});

test("a line of foreign text cannot forge another one", () => {
  expect(plainLine("a\r\nworker b ends\nc")).toBe("a\\u000aworker b ends\\u000ac");
});

test("notes are plain", () => {
  const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  onTestFinished(() => write.mockRestore());
  note(hostile);
  expect(write.mock.calls).toEqual([[`${plain(hostile)}\n`]]);
});

test("refusals are plain", async () => {
  const { stderr } = await run("view", "no\u001b[31m.jsonl");
  expect(stderr).toBe("cannot_load: the file no\\u001b[31m.jsonl does not exist\n");
});
