// Commits that replicas must confirm. Simultaneous commits share one WAIT.
//
// A connection answers nothing else during a WAIT. With one WAIT per commit, an absent replica would block all commands
// to a busy server, even reads, for the sum of all these waits.
import type { Cluster, Redis } from "ioredis";
import { HoldfastError } from "../../core/errors.ts";
import { faultOf, notSent } from "./failures.ts";
import { hashes, scripts, type ScriptName } from "./scripts.ts";

export interface Sent {
  script: ScriptName;
  args: (string | number)[];
  /** The `performance.now()` time after which the commit is not sent. */
  until: number;
  /** Whether the text of the script must be sent. */
  isWhole: boolean;
}

interface Waiting extends Sent {
  resolve(answer: unknown): void;
  reject(cause: unknown): void;
}

/** Milliseconds to wait for replicas: normally, and after a WAIT that they did not answer. */
const patient = 2000;
const impatient = 250;
/** Maximum number of commits that share a WAIT. */
const most = 200;

/** Returns a function that calls a script on a bucket and waits until this many replicas have its writes. */
export function createConfirming(client: Redis | Cluster, { wait, shown }: { wait: number; shown: string }) {
  // Commits that wait for the previous WAIT, by the key of their bucket. Commits of a bucket share a connection.
  const queues = new Map<string, Waiting[]>();
  let limit = patient;

  async function send(key: string, units: Waiting[]): Promise<void> {
    // The commits and WAIT are sent in one pipeline, so that they use the same connection.
    const pipeline = client.pipeline();
    for (const { script, args, isWhole } of units) {
      if (isWhole) pipeline.eval(scripts[script], 1, key, args as never);
      else pipeline.evalsha(hashes[script], 1, key, args as never);
    }
    const answers = (await pipeline.wait(wait, limit).exec()) as [Error | null, unknown][];
    const [unsure, replicas] = answers.at(-1) as [Error | null, number];
    const isConfirmed = unsure === null && replicas >= wait;
    limit = isConfirmed ? patient : impatient;
    for (const [index, unit] of units.entries()) {
      const [failed, answer] = answers[index]!;
      // A script that wrote nothing needs no confirmation.
      const isRefused = answer === "conflict" || answer === "duplicate" || answer === null || Array.isArray(answer);
      if (failed) unit.reject(failed);
      else if (isRefused || isConfirmed) unit.resolve(answer);
      else unit.reject(unsure ? unasked(unsure) : unconfirmed(replicas));
    }
  }

  function unconfirmed(replicas: number): HoldfastError {
    const message = `the Redis store ${shown} stored the commit, but only ${replicas} of ${wait} replicas confirmed it in time`;
    return new HoldfastError("store_busy", message);
  }

  /** Hides a failed WAIT from the front, which would otherwise send the stored commit again. */
  function unasked(unsure: Error): HoldfastError {
    const { code, message } = faultOf(unsure);
    const text = `a commit was stored, but not confirmed by replicas: the Redis store ${shown} ${message}`;
    return new HoldfastError(code, text);
  }

  async function sendAll(key: string, queue: Waiting[]): Promise<void> {
    // Waits for simultaneous commits, to send them together.
    await new Promise(process.nextTick);
    while (queue.length > 0) {
      const now = performance.now();
      const all = queue.splice(0, most);
      for (const { until, reject } of all) if (until <= now) reject(notSent());
      const units = all.filter(({ until }) => until > now);
      if (units.length === 0) continue;
      await send(key, units).catch((cause: unknown) => {
        for (const { reject } of units) reject(cause);
      });
    }
    queues.delete(key);
  }

  return (key: string, sent: Sent): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const waiting: Waiting = { ...sent, resolve, reject };
      const queue = queues.get(key);
      if (queue) return void queue.push(waiting);
      const first = [waiting];
      queues.set(key, first);
      void sendAll(key, first);
    });
}
