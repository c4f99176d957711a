// An MCP server as a child process: one JSON-RPC message per line of its input and output.
import { spawn, type ChildProcess } from "node:child_process";
import type { Socket } from "node:net";
import { messageOf } from "../../core/errors.ts";
import { onAbort } from "../../io/abort.ts";
import {
  answerTo,
  hasNoInitialize,
  initializeParams,
  isModern,
  legacyVersion,
  modernVersion,
  parseReply,
  resultOf,
  serverFailed,
  withMeta,
  type Greeting,
  type RpcCall,
  type RpcReply,
} from "./rpc.ts";

export interface ProcessOptions {
  command: string;
  args?: readonly string[] | undefined;
  /**
   * Environment variables for the server, in addition to variables of the user and the system, such as `PATH`. The
   * server gets no other variables, such as API keys.
   */
  env?: { [name: string]: string } | undefined;
  cwd?: string | undefined;
}

/** Milliseconds that a server has to exit after its input is closed. */
const grace = 2_000;

/** Maximum number of characters in a message. */
const largest = 64 * 1024 * 1024;

/** The environment variables that a server gets from this process, on POSIX and on Windows. */
const inheritable = new RegExp(
  "^(?:PATH|HOME|USER|LOGNAME|SHELL|TERM|LANG|LC_\\w+|TMPDIR|" +
    "APPDATA|LOCALAPPDATA|PATHEXT|SYSTEMROOT|SYSTEMDRIVE|WINDIR|COMSPEC|TEMP|TMP|USERNAME|USERPROFILE|HOMEDRIVE|HOMEPATH|" +
    "PROGRAMDATA|PROGRAMFILES|PROCESSOR_ARCHITECTURE)$",
  "i",
);

const inherited = (): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => inheritable.test(name)));

interface Running {
  child: ChildProcess;
  /** The requests that the process has not answered, by id. */
  waiting: Map<unknown, { take(reply: RpcReply): void; fail(error: Error): void }>;
}

/** Starts the process with the first request. If the process exits, the next request starts it again. */
export function createProcessServer({ command, args = [], env, cwd }: ProcessOptions) {
  let running: Running | undefined;
  let lastId = 0;

  const cannotStart = (thrown: unknown): string => `cannot be started: ${messageOf(thrown)}`;

  function open(): ChildProcess {
    try {
      return spawn(command, args, {
        stdio: ["pipe", "pipe", "inherit"],
        env: { ...inherited(), ...env },
        ...(cwd !== undefined && { cwd }),
      });
    } catch (thrown) {
      // `spawn` throws some errors, such as for a working directory that is a file. It reports the others as events.
      throw serverFailed(`the MCP server ${command} ${cannotStart(thrown)}`, false, thrown);
    }
  }

  function start(): Running {
    if (running) return running;
    const child = open();
    const started: Running = { child, waiting: new Map() };
    const { waiting } = started;
    running = started;
    // The child does not keep this process alive. A waiting request does, because it has a timer.
    child.unref();
    for (const stream of [child.stdin, child.stdout]) (stream as Partial<Socket> | null)?.unref?.();
    const lost = (why: string, isSent: boolean): void => {
      if (running === started) running = undefined;
      for (const { fail } of waiting.values()) fail(serverFailed(`the MCP server ${command} ${why}`, isSent));
      waiting.clear();
    };
    child.on("error", (error) => lost(cannotStart(error), false));
    child.on("exit", (code, signal) => lost(`exited (${signal ?? `code ${code}`})`, true));
    child.stdin?.on("error", () => undefined);
    let line = "";
    // Not readline, because some Node versions also end a line at U+2028, which JSON may contain.
    child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
      for (const [index, part] of chunk.split("\n").entries()) {
        if (index > 0) {
          // A reply without an id is ignored, because several calls may be waiting.
          const reply = parseReply(line);
          waiting.get(reply?.id)?.take(reply as RpcReply);
          const answer = reply ? undefined : answerTo(line);
          if (answer) write(started, answer);
          line = "";
        }
        line += part;
      }
      if (line.length <= largest) return;
      child.kill("SIGKILL");
      child.stdout?.destroy();
      lost("sent a message larger than 64 MB", true);
    });
    return started;
  }

  function write({ child }: Running, message: object): void {
    child.stdin?.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  async function send(method: string, params: object, { timeout, signal }: RpcCall): Promise<RpcReply> {
    signal?.throwIfAborted();
    const started = start();
    const { waiting } = started;
    const id = ++lastId;
    return new Promise<RpcReply>((resolve, reject) => {
      const cancel = (error: Error): void => {
        end();
        reject(error);
        write(started, { method: "notifications/cancelled", params: { requestId: id, reason: error.message } });
      };
      const late = (): void =>
        cancel(serverFailed(`the MCP server ${command} did not answer within ${timeout} ms`, true));
      const timer = setTimeout(late, timeout);
      const stopListening = onAbort(signal, () => cancel(signal?.reason as Error));
      const end = (): void => {
        clearTimeout(timer);
        stopListening();
        waiting.delete(id);
      };
      waiting.set(id, {
        take(reply) {
          end();
          resolve(reply);
        },
        fail(error) {
          end();
          reject(error);
        },
      });
      write(started, { id, method, params });
    });
  }

  return {
    name: command,
    async greet(call: Omit<RpcCall, "method" | "params">): Promise<Greeting> {
      const method = "initialize";
      const started = start();
      const reply = await send(method, initializeParams, { ...call, method, params: {} });
      if (hasNoInitialize(reply)) return { version: modernVersion };
      const { protocolVersion } = resultOf(command, reply, method);
      write(started, { method: "notifications/initialized" });
      return { version: typeof protocolVersion === "string" ? protocolVersion : legacyVersion };
    },
    /** Sends a request. Returns undefined if the process has exited since it was initialized. */
    request(greeting: Greeting, call: RpcCall): Promise<RpcReply | undefined> {
      if (!running) return Promise.resolve(undefined);
      return send(call.method, isModern(greeting) ? withMeta(call.params) : call.params, call);
    },
    async close(): Promise<void> {
      const ending = running?.child;
      if (!ending) return;
      // A later request starts a new process.
      running = undefined;
      const ended = new Promise<unknown>((resolve) => ending.once("exit", resolve).once("error", resolve));
      ending.stdin?.end();
      const timer = setTimeout(() => ending.kill("SIGKILL"), grace);
      await ended;
      clearTimeout(timer);
    },
  };
}
