// The process of a harness: its standard input, and failures to start it.
import { ChildProcess, spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { PassThrough } from "node:stream";
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
  expect(await run("sh", ["-c", "wc -c"], long)).toEqual({ code: 0, output: "1000000" });
  expect(await run("true", [], long)).toEqual({ code: 0, output: "" });
  expect(await run("sh", ["-c", "wc -c"])).toEqual({ code: 0, output: "0" });
});

test("output that arrives after the exit is kept, unless a process that left the group holds the output open", async () => {
  const stdout = new PassThrough();
  const ended = new (ChildProcess as unknown as new () => ReturnType<typeof spawn>)();
  vi.mocked(spawn).mockReturnValueOnce(Object.assign(ended, { stdout }));
  const running = run("true", []);
  ended.emit("exit", 0);
  setImmediate(() => stdout.end("last words", () => ended.emit("close")));
  expect(await running).toEqual({ code: 0, output: "last words" });

  const left = `require("node:child_process").spawn("sleep", ["60"], { detached: true, stdio: "inherit" })`;
  const script = `const { pid } = ${left}; console.log(pid); process.exit()`;
  const { code, output } = await run(process.execPath, ["-e", script]);
  expect(code).toBe(0);
  // The process that holds the output open still runs.
  process.kill(Number(output), "SIGKILL");
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
