// Commits that replicas have to confirm: those of the same moment go together, with one WAIT for all of them.
//
// A connection answers nothing else while it WAITs. With one for each commit, a replica that is gone would keep a busy
// server from everything, reading too, for as long as all of those take one after the other.
import type { Cluster, Redis } from "ioredis";
import { HoldfastError } from "../../core/errors.ts";
import { coded } from "./failures.ts";
import { scripts, type ScriptName } from "./scripts.ts";

interface Unit {
  script: ScriptName;
  args: (string | number)[];
  until: number;
  /** Whether the server has to be sent the script itself. */
  whole: boolean;
  resolve(answer: unknown): void;
  reject(cause: unknown): void;
}

/** How long replicas are waited for, in milliseconds: at first, and as long as they were not there the last time. */
const patient = 2000;
const impatient = 250;
/** The most commits that go together. */
const most = 200;

/** Gives a function that calls a script on a bucket and waits until so many replicas have what it wrote. */
export function createConfirming(
  client: Redis | Cluster,
  hashes: Record<ScriptName, string>,
  { wait, shown }: { wait: number; shown: string },
) {
  // By bucket: its commits are on one connection. Those that wait for the WAIT before them.
  const queues = new Map<string, Unit[]>();
  let limit = patient;

  async function send(key: string, units: Unit[]): Promise<void> {
    // In one pipeline, so that it is the connection of the commits whose replicas are counted.
    const pipeline = client.pipeline();
    for (const { script, args, whole } of units) {
      if (whole) pipeline.eval(scripts[script], 1, key, args as never);
      else pipeline.evalsha(hashes[script], 1, key, args as never);
    }
    const answers = (await pipeline.wait(wait, limit).exec()) as [Error | null, unknown][];
    const [unsure, replicas] = answers.at(-1) as [Error | null, number];
    const isConfirmed = unsure === null && replicas >= wait;
    limit = isConfirmed ? patient : impatient;
    for (const [index, unit] of units.entries()) {
      const [failed, answer] = answers[index]!;
      // A script that wrote nothing has nothing to be confirmed.
      const isRefused = answer === "conflict" || answer === "duplicate" || answer === null || Array.isArray(answer);
      if (failed?.message.includes("NOSCRIPT") && !unit.whole) queues.get(key)!.push({ ...unit, whole: true });
      else if (failed) unit.reject(failed);
      else if (isRefused || isConfirmed) unit.resolve(answer);
      else unit.reject(unsure ? unasked(unsure) : unconfirmed(replicas));
    }
  }

  function unconfirmed(replicas: number): HoldfastError {
    const message = `the Redis store ${shown} has it, but only ${replicas} of ${wait} replicas confirmed it in time`;
    return new HoldfastError("store_busy", message);
  }

  /** Never the failure as it is: it would be taken for one of the commit, which happened and must not be sent again. */
  function unasked(unsure: Error): HoldfastError {
    const { code, message } = coded(unsure, shown);
    return new HoldfastError(code, `a commit was stored, but not confirmed by replicas: ${message}`);
  }

  async function sendAll(key: string, queue: Unit[]): Promise<void> {
    // All of the same moment.
    await new Promise(process.nextTick);
    while (queue.length > 0) {
      const now = performance.now();
      const units = queue.splice(0, most).filter(({ until }) => until > now);
      if (units.length === 0) continue;
      await send(key, units).catch((cause: unknown) => {
        for (const { reject } of units) reject(cause);
      });
    }
    queues.delete(key);
  }

  return (script: ScriptName, key: string, args: (string | number)[], until: number): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const unit: Unit = { script, args, until, whole: false, resolve, reject };
      const queue = queues.get(key);
      if (queue) queue.push(unit);
      else {
        const first = [unit];
        queues.set(key, first);
        void sendAll(key, first);
      }
    });
}
