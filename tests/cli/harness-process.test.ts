// The process of a harness: its standard input, and failures to start it.
import { ChildProcess, spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { expect, test, vi } from "vitest";
import { runHarness } from "../../src/rollout/harness/process.ts";

vi.mock(import("node:child_process"), async (load) => {
  const real = await load();
  return { ...real, spawn: vi.fn(real.spawn) as never };
});

const long = "x".repeat(1_000_000);

const run = (command: string, args: string[], input?: string) =>
  runHarness({
    command,
    args,
    cwd: tmpdir(),
    env: {},
    ...(input !== undefined && { input }),
    passed: [],
    home: tmpdir(),
    signal: new AbortController().signal,
  });

test("a harness gets a long prompt by standard input, and may end before it has read it", async () => {
  expect(await run("sh", ["-c", "wc -c; sleep 0.2"], long)).toEqual({ code: 0, output: "1000000" });
  expect(await run("true", [], long)).toEqual({ code: 0, output: "" });
  expect(await run("sh", ["-c", "wc -c; sleep 0.2"])).toEqual({ code: 0, output: "0" });
});

test("a harness that cannot be started is a failure, not an exception", async () => {
  expect(await run("echo", [long])).toMatchObject({ code: undefined, failure: expect.stringContaining("E2BIG") });
  expect(await run("no-such-program", [])).toMatchObject({
    code: undefined,
    failure: expect.stringContaining("ENOENT"),
  });
});

test("a harness that cannot be started because of too many open files is a failure, not an exception", async () => {
  // Then Node returns a child without streams.
  vi.mocked(spawn).mockImplementationOnce(() => {
    const child = new (ChildProcess as unknown as new () => ReturnType<typeof spawn>)();
    process.nextTick(() => child.emit("error", new Error("spawn true EMFILE")));
    return child;
  });
  expect(await run("true", [])).toEqual({ code: undefined, output: "", failure: "spawn true EMFILE" });
});
