// Uses a thread to detect code that blocks the process. startWatchdog() then ends the process; reportBlocked() reports
// which code it is.
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";

export interface WatchdogOptions {
  /** Milliseconds that code may block the process. */
  maxBlocked: number;
  /** A message to write to this file descriptor when the process is blocked. */
  message?: { text: string; to: 1 | 2 };
  /** The parent's process id. This process must not outlive its parent, even while it is blocked. */
  parent?: number;
}

/** The signal that tells the parent that the process was blocked. Nothing else sends it, and it leaves no core dump. */
export const blockedSignal = "SIGALRM";

// Counts ticks, not time: after a pause of the whole process, both threads resume together and no code was blocked.
const watch = `
const { workerData: { beats, ticks, every, data } } = require("node:worker_threads");
let last = -1, silent = 0;
setInterval(() => {
  onTick();
  const now = Atomics.load(beats, 0);
  silent = now === last ? silent + 1 : 0;
  last = now;
  if (silent >= ticks) onBlocked(silent === ticks);
}, every);
`;

const end = `
function onTick() {
  if (data.parent !== undefined && process.ppid !== data.parent) process.kill(process.pid, "SIGKILL");
}
function onBlocked() {
  try {
    if (data.message) require("node:fs").writeSync(data.message.to, data.message.text + "\\n");
  } finally {
    process.kill(process.pid, data.signal);
  }
}
`;

// The inspector interrupts even an endless loop, but not a Node call that does not return, such as execSync.
const report = `
const { Session } = require("node:inspector");
function onTick() {}
function onBlocked(isFirst) {
  if (isFirst) tell().catch(() => undefined);
}
async function tell() {
  const session = new Session();
  session.connectToMainThread();
  const post = (name, options) =>
    new Promise((resolve, reject) => session.post(name, options, (error, result) => (error ? reject(error) : resolve(result))));
  const found = look().finally(() => session.disconnect());
  const given = await Promise.race([found, new Promise((resolve) => setTimeout(resolve, 1000))]);
  const { place = "a call of Node that does not return", calls = "" } = given ?? {};
  require("node:fs").writeSync(2, data.text.replace("PLACE", () => place + (calls === "" ? "" : " (" + calls + ")")) + "\\n");

  async function look() {
    const urls = new Map();
    session.on("Debugger.scriptParsed", ({ params }) => urls.set(params.scriptId, params.url));
    const paused = new Promise((resolve) => session.once("Debugger.paused", ({ params }) => resolve(params.callFrames)));
    await post("Debugger.enable");
    await post("Debugger.pause");
    const frames = await paused;
    const fileOf = ({ location }) => (urls.get(location.scriptId) ?? "").replace("file://", "");
    const isForeign = (file) => !/^(node:|$)|[/]node_modules[/]/.test(file) && !file.startsWith(data.own);
    const frame = frames.find((one) => isForeign(fileOf(one))) ?? frames[0];
    const place = (frame.functionName || "a function") + " at " + fileOf(frame) + ":" + (frame.location.lineNumber + 1);
    const { result } = await post("Runtime.evaluate", { expression: data.calls });
    await post("Debugger.resume");
    return { place, calls: String(result.value ?? "") };
  }
}
`;

function start(source: string, maxBlocked: number, data: object): { stop(): void } {
  const beats = new Int32Array(new SharedArrayBuffer(4));
  const every = Math.min(1000, maxBlocked / 4);
  const timer = setInterval(() => Atomics.add(beats, 0, 1), every / 2).unref();
  const ticks = Math.ceil(maxBlocked / every);
  const thread = new Worker(source + watch, { eval: true, workerData: { beats, ticks, every, data } });
  thread.unref();
  return {
    stop() {
      clearInterval(timer);
      void thread.terminate();
    },
  };
}

export function startWatchdog({ maxBlocked, message, parent }: WatchdogOptions): void {
  start(end, maxBlocked, { message, parent, signal: blockedSignal });
}

export interface BlockedOptions {
  /** Milliseconds that code may block the process before it is reported. */
  after: number;
  /**
   * A message for standard error, written once each time the process is blocked. PLACE is replaced by the running
   * function and its location.
   */
  text: string;
  /** Describes the running calls. Called while the process is blocked. */
  running(): string;
}

/** The global name under which the thread finds `running`. */
const name = Symbol.for("holdfast.running");

/** Reports code that blocks the process, until `stop` is called. */
export function reportBlocked({ after, text, running }: BlockedOptions): { stop(): void } {
  Object.assign(globalThis, { [name]: running });
  const own = fileURLToPath(new URL("..", import.meta.url));
  return start(report, after, { text, own, calls: `globalThis[Symbol.for("${name.description}")]()` });
}
