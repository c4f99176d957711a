// Atomic commits to sessions in several buckets: an intent is recorded, prepared in each bucket, and then decided.
//
// The record of the intent decides. Once it is "committed", all commits are valid, and the next process that finds a
// session with the intent completes it. If the record is missing, the intent was never committed, or is completed in
// all sessions. So the writer may be killed at any point, and a reader that has seen one of the commits finds the
// others.
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { HoldfastError } from "../../core/errors.ts";
import type { Appended } from "../../core/store.ts";
import type { Call } from "../front.ts";
import { createAttempts, type Effect } from "../front/attempts.ts";
import { createSessionQueue } from "../front/session-queue.ts";
import { byBucket, wholeArgs, type Argument, type Prepared } from "./commits.ts";
import type { Connection } from "./connection.ts";
import { faultOf } from "./failures.ts";
import type { ScriptName } from "./scripts.ts";

/** Milliseconds that a writer may take before others abort its intent. */
const longestPending = 1000;

export type Intents = ReturnType<typeof createIntents>;

export function createIntents({ address, run, bucketOf }: Connection) {
  const { expire, shown } = address;
  const { ask } = createAttempts({ name: `the Redis store ${shown}`, fault: faultOf });
  // Writers are serialised, because two writers in one process on the same sessions would only abort each other.
  const { alone } = createSessionQueue<never>(0, () => undefined);

  /** Calls a script as one of several steps. A step that "reads" may be repeated: a second run changes nothing. */
  const step = (effect: Effect, script: ScriptName, bucket: number, args: Argument[], call: Call): Promise<unknown> =>
    ask(effect, call, (call) => run(script, bucket, args, call));

  /** Splits the name of an intent that sessions store: into the bucket of its record, and its id. */
  function noteOf(name: string): [bucket: number, id: string] {
    const [bucket, id] = name.split("/") as [string, string];
    return [Number(bucket), id];
  }

  /** Writes a committed intent into every log that lacks it, and forgets the intent. */
  async function finish(name: string, stamp: string, sessions: string[], call: Call): Promise<void> {
    const [note, id] = noteOf(name);
    await Promise.all(
      byBucket(sessions, bucketOf).map(([bucket, ids]) => {
        const numbered = ids.flatMap((session) => [session, sessions.indexOf(session)]);
        return step("reads", "apply", bucket, [name, stamp, expire, ...numbered], call);
      }),
    );
    await step("reads", "done", note, [id], call);
  }

  async function drop(name: string, sessions: string[], call: Call): Promise<void> {
    const groups = byBucket(sessions, bucketOf);
    await Promise.all(groups.map(([bucket, ids]) => step("reads", "drop", bucket, [name, ...ids], call)));
  }

  /**
   * Settles the intent of a session. A pending intent has stored nothing, so a reader ignores it: the result is false,
   * and the reader's data is valid. A writer waits for the intent, and aborts the intent if the wait takes too long.
   */
  async function settle(session: string, name: string, who: "reader" | "writer", call: Call): Promise<boolean> {
    const [note, id] = noteOf(name);
    const late = performance.now() + longestPending;
    for (let pause = 1; ; pause = Math.min(pause * 2, 20)) {
      const [state, sessions] = (await step("reads", "state", note, [id], call)) as [string | null, string | null];
      if (state === null) {
        await drop(name, [session], call);
        return true;
      }
      if (state !== "pending") {
        await finish(name, state, JSON.parse(sessions ?? "[]") as string[], call);
        return true;
      }
      if (who === "reader") return false;
      if (performance.now() > late) await step("reads", "abort", note, [id], call);
      else await delay(pause * (0.5 + Math.random()));
      assertTime(call);
    }
  }

  function assertTime({ until }: Call): void {
    if (performance.now() < until) return;
    const message = `the Redis store ${shown} did not finish in time because other writers changed the same sessions`;
    throw new HoldfastError("store_busy", message);
  }

  /** Calls a script that commits, until no intent blocks it. A blocked script names the session and the intent. */
  async function decide(ask: () => Promise<unknown>, call: Call): Promise<Appended> {
    for (;;) {
      const answer = await ask();
      if (!Array.isArray(answer)) return answer as Appended;
      const [session, name] = answer as [string, string];
      await settle(session, name, "writer", call);
      assertTime(call);
    }
  }

  /** Appends to sessions in one bucket. */
  async function appendTo(bucket: number, commits: Prepared[], call: Call): Promise<Appended> {
    const [first] = commits as [Prepared];
    // The script `one` cannot write deadlines of sessions that expire.
    if (first.isOne && commits.length === 1 && expire === 0) {
      const answer = await run("one", bucket, first.args, call);
      if (answer !== null) return answer as Appended;
    }
    const args = [expire, ...commits.flatMap(wholeArgs)];
    return decide(() => run("append", bucket, args, call), call);
  }

  /** Returns the combined answer of all buckets, without storing anything. */
  async function judge(groups: [number, Prepared[]][], call: Call): Promise<Appended> {
    const answers = await Promise.all(
      groups.map(([bucket, commits]) =>
        decide(() => step("reads", "judge", bucket, commits.flatMap(wholeArgs), call), call),
      ),
    );
    return answers.find((answer) => answer === "duplicate") ?? answers.find((answer) => answer === "conflict") ?? "ok";
  }

  /** Tries once to append to several buckets; undefined if other writers interfered. */
  async function tryAll(groups: [number, Prepared[]][], sessions: string[], call: Call): Promise<Appended | undefined> {
    const refusal = await judge(groups, call);
    if (refusal !== "ok") return refusal;
    const [note, id] = [groups[0]![0], randomUUID()];
    const name = `${note}/${id}`;
    await step("writes", "intend", note, [id, JSON.stringify(sessions)], call);
    // Buckets are prepared in order, so that one of two conflicting writers always succeeds.
    for (const [bucket, commits] of groups) {
      const args = [name, expire, ...commits.flatMap(wholeArgs)];
      const answer = await decide(() => step("writes", "prepare", bucket, args, call), call);
      if (answer === "ok") continue;
      await step("reads", "abort", note, [id], call);
      await drop(name, sessions, call);
      return undefined;
    }
    const stamp = (await step("writes", "commit", note, [id, sessions.length], call)) as string | null;
    if (stamp === null) {
      await drop(name, sessions, call);
      return undefined;
    }
    // The commits are stored. If `finish` fails, the next process that finds one of the sessions completes the intent.
    await finish(name, stamp, sessions, call).catch(() => {});
    return "ok";
  }

  async function append(commits: Prepared[], call: Call): Promise<Appended> {
    const groups = byBucket(commits, ({ session }) => bucketOf(session));
    if (groups.length === 1) return appendTo(groups[0]![0], commits, call);
    const sessions = commits.map(({ session }) => session);
    return alone(sessions, async () => {
      for (;;) {
        assertTime(call);
        const answer = await tryAll(groups, sessions, call);
        if (answer !== undefined) return answer;
      }
    });
  }

  return {
    append,
    appendOne: (commit: Prepared, call: Call) => appendTo(bucketOf(commit.session), [commit], call),
    settle,
  };
}
