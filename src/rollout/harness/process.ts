// runHarness(): runs a harness as a child in its own process group, and stops the whole group at the end.
import { spawn, type ChildProcess } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../../core/errors.ts";
import { onAbort } from "../../io/abort.ts";
import type { Launch } from "./launch.ts";

/**
 * The variables of this process that a harness gets. Keys of model servers are not among them, because a harness with a
 * key could ask another model.
 */
const passedOn = ["PATH", "LANG", "LC_ALL", "TZ", "SHELL", "USER", "LOGNAME", "TMPDIR", "SSL_CERT_FILE", "SystemRoot"];

/** Maximum number of characters of the harness's output that are kept, to explain a failure. */
const keptOutput = 4_000;

/** Milliseconds that a group has to end by itself before it is killed. */
const grace = 2_000;

/** Milliseconds that the rest of the output has to arrive after the group has ended. */
const lastOutput = 500;

export interface HarnessEnd {
  /** The exit code; undefined if a signal ended the harness, or if it could not be started. */
  code: number | undefined;
  /** The last part of the harness's standard output and standard error. */
  output: string;
  /** Why the harness could not be started. */
  failure?: string;
}

export interface HarnessRun extends Launch {
  /** Names of further variables of this process to pass on. */
  passed: readonly string[];
  /** The harness's home folder, so that it does not read the user's own configuration. */
  home: string;
  /** A folder to delete if this process is killed. */
  folder?: string;
  signal: AbortSignal;
}

/** Runs a harness. Never rejects. Returns after every process of the group has ended. */
export async function runHarness({
  command,
  args,
  cwd,
  env,
  input,
  isShell,
  passed,
  home,
  folder,
  signal,
}: HarnessRun): Promise<HarnessEnd> {
  const inherited = [...passedOn, ...passed].flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  let child: ChildProcess;
  try {
    child = spawn(command, args, {
      cwd,
      env: { HOME: home, ...Object.fromEntries(inherited), ...env },
      stdio: "pipe",
      detached: true,
      shell: isShell === true,
    });
  } catch (thrown) {
    // Node throws some failures, for example of an argument that is too long, and reports others as an event.
    return { code: undefined, output: "", failure: messageOf(thrown) };
  }
  const ending = new Promise<Omit<HarnessEnd, "output">>((resolve) => {
    child.on("error", ({ message }) => resolve({ code: undefined, failure: message }));
    // Waits for "exit", because "close" waits for the output, which a process left behind may hold open.
    child.on("exit", (code) => resolve({ code: code ?? undefined }));
  });
  const closed = new Promise((resolve) => child.on("close", resolve));
  // A harness may end before it has read its input. With too many open files, a child has no streams.
  child.stdin?.on("error", () => undefined).end(input);
  const kept = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name]
      ?.setEncoding("utf8")
      .on("data", (text: string) => (kept[name] = (kept[name] + text).slice(-keptOutput)));
  }
  const { pid } = child;
  if (pid !== undefined) track(pid);
  const stopGuard = pid === undefined ? undefined : startGuard(pid, folder);
  const stop = (): void => void stopGroup(pid);
  const stopListening = onAbort(signal, stop);
  if (signal.aborted) stop();
  const ended = await ending;
  stopListening();
  await stopGroup(pid);
  stopGuard?.();
  if (pid !== undefined) running.delete(pid);
  // "exit" may come before output that the harness has already written.
  if (ended.failure === undefined) await Promise.race([closed, delay(lastOutput, undefined, { ref: false })]);
  child.stdin?.destroy();
  child.stdout?.destroy();
  child.stderr?.destroy();
  return { ...ended, output: `${kept.stdout}\n${kept.stderr}`.trim() };
}

/** The ids of the running process groups. */
const running = new Set<number>();

/** Kills the group if this process exits before the group has ended, for example after a second Ctrl-C. */
function track(pid: number): void {
  if (!process.listeners("exit").includes(killRunning)) process.on("exit", killRunning);
  running.add(pid);
}

function killRunning(): void {
  for (const pid of running) signalGroup(pid, "SIGKILL");
}

/** Waits for a line. If its input closes without one, ends a process group and deletes a folder. */
const guardScript = `read -r _ && exit
kill -TERM "-$1" && { sleep ${grace / 1000}; kill -KILL "-$1"; }
[ -z "$2" ] || rm -rf -- "$2"`;

/**
 * Starts a small process that stops the group if this process is killed, because then their pipe closes. Without it,
 * harnesses would continue to run. Returns a function that ends the small process.
 */
function startGuard(pid: number, folder = ""): () => void {
  try {
    // In its own group, so that signals to the group of this process do not reach it.
    const guard = spawn("sh", ["-c", guardScript, "sh", String(pid), folder], {
      stdio: ["pipe", "ignore", "ignore"],
      detached: true,
    });
    guard.on("error", () => undefined).unref();
    guard.stdin.on("error", () => undefined);
    return () => void guard.stdin.end("\n");
  } catch {
    // The harness runs without a guard, for example if there are too many processes.
    return () => undefined;
  }
}

/** Ends a process group with SIGTERM, then with SIGKILL. */
async function stopGroup(pid: number | undefined): Promise<void> {
  if (pid === undefined) return;
  // Nothing survives the second signal, but an ended process may stay in the group until its parent collects it.
  for (const [signal, wait] of [["SIGTERM", grace] as const, ["SIGKILL", 500] as const]) {
    if (!signalGroup(pid, signal)) return;
    for (const end = performance.now() + wait; performance.now() < end;) {
      await delay(20);
      if (!signalGroup(pid, 0)) return;
    }
  }
}

/** Sends a signal to a process group. Returns whether the group has a process. */
function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-pid, signal);
  } catch {
    return false;
  }
}
