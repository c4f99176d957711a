// Commits that replicas have to confirm: those of the same moment go together, with one WAIT for all of them.
//
// A connection answers nothing else during a WAIT. With one WAIT per commit, an absent replica would block all commands
// of a busy server, reads too, for the sum of all those times.
import type { Cluster, Redis } from "ioredis";
import { HoldfastError } from "../../core/errors.ts";
import { faultOf, notSent } from "./failures.ts";
import { hashes, scripts, type ScriptName } from "./scripts.ts";

export interface Sent {
  script: ScriptName;
  args: (string | number)[];
  /** Not sent after this time of `performance.now()`. */
  until: number;
  /** Whether the server has to be sent the script itself. */
  isWhole: boolean;
}

interface Waiting extends Sent {
  resolve(answer: unknown): void;
  reject(cause: unknown): void;
}

/** How long to wait for replicas, in milliseconds: usually, and after a WAIT in which they were absent. */
const patient = 2000;
const impatient = 250;
/** The most commits that go together. */
const most = 200;

/** Gives a function that calls a script on a bucket and waits until so many replicas have its writes. */
export function createConfirming(client: Redis | Cluster, { wait, shown }: { wait: number; shown: string }) {
  // By the key of a bucket, whose commits share a connection: commits that wait for the WAIT before them.
  const queues = new Map<string, Waiting[]>();
  let limit = patient;

  async function send(key: string, units: Waiting[]): Promise<void> {
    // In one pipeline, so that WAIT is asked on the connection of the commits.
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

  /** Hides the failure of WAIT from the front, which would send the stored commit again. */
  function unasked(unsure: Error): HoldfastError {
    const { code, message } = faultOf(unsure);
    const text = `a commit was stored, but not confirmed by replicas: the Redis store ${shown} ${message}`;
    return new HoldfastError(code, text);
  }

  async function sendAll(key: string, queue: Waiting[]): Promise<void> {
    // All of the same moment.
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
