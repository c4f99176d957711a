// startWatchdog(): ends this process when its code blocks it, by a thread that sees no heartbeat.
import { Worker } from "node:worker_threads";

export interface WatchdogOptions {
  /** Milliseconds that code may block the process. */
  maxBlocked: number;
  /** Written to this file descriptor when the process is blocked. */
  message?: { text: string; to: 1 | 2 };
  /** The process without which this one must not continue, even if it is blocked. */
  parent?: number;
}

/** Tells the parent that the process was blocked. No code of ours sends it, and it leaves no core dump. */
export const blockedSignal = "SIGALRM";

// Counts ticks, not time: after a pause of the whole process, both threads continue at once.
const source = `
const { workerData: { beats, ticks, every, message, parent, signal } } = require("node:worker_threads");
let last = -1, silent = 0;
setInterval(() => {
  if (parent !== undefined && process.ppid !== parent) process.kill(process.pid, "SIGKILL");
  const now = Atomics.load(beats, 0);
  silent = now === last ? silent + 1 : 0;
  last = now;
  if (silent < ticks) return;
  try {
    if (message) require("node:fs").writeSync(message.to, message.text + "\\n");
  } finally {
    process.kill(process.pid, signal);
  }
}, every);
`;

export function startWatchdog({ maxBlocked, message, parent }: WatchdogOptions): void {
  const beats = new Int32Array(new SharedArrayBuffer(4));
  const every = Math.min(1000, maxBlocked / 4);
  setInterval(() => Atomics.add(beats, 0, 1), every / 2).unref();
  const ticks = Math.ceil(maxBlocked / every);
  const workerData = { beats, ticks, every, message, parent, signal: blockedSignal };
  new Worker(source, { eval: true, workerData }).unref();
}
