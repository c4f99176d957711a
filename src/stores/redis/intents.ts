// Commits to sessions of several buckets, all or none of them: an intent is noted down, prepared in each, and then decided.
//
// What counts is the note: once it says "committed" all of it is stored, and whoever comes upon a session with an intent
// finishes it. A note that is gone was never committed, or is done everywhere. So it does not matter where the writer is
// killed, and a reader that has seen one of the commits finds the others.
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { HoldfastError } from "../../core/errors.ts";
import type { Appended } from "../../core/store.ts";
import { bucketKey, bucketOf, wholeArgs, type Prepared } from "./commits.ts";
import type { Connection } from "./connection.ts";

/** How long a writer may take before others give its intent up, in milliseconds. */
const moment = 1000;

export type Intents = ReturnType<typeof createIntents>;

export function createIntents({ address, call }: Pick<Connection, "address" | "call">) {
  const { prefix, expire, shown } = address;
  const key = (bucket: number): string => bucketKey(prefix, bucket);

  /** An intent is named in sessions by the bucket that its note is in, and its own name. */
  function noteOf(name: string): [key: string, id: string] {
    const [bucket, id] = name.split("/") as [string, string];
    return [key(Number(bucket)), id];
  }

  function byBucket(sessions: string[], buckets: number): [bucket: number, sessions: string[]][] {
    const groups = new Map<number, string[]>();
    for (const session of sessions) {
      const bucket = bucketOf(session, buckets);
      groups.set(bucket, [...(groups.get(bucket) ?? []), session]);
    }
    return [...groups];
  }

  /** Writes what a committed intent is about into every log that has not got it yet, and forgets the intent. */
  async function finish(
    name: string,
    stamp: string,
    sessions: string[],
    buckets: number,
    until: number,
  ): Promise<void> {
    await Promise.all(
      byBucket(sessions, buckets).map(([bucket, ids]) =>
        call(
          "apply",
          key(bucket),
          [name, stamp, expire, ...ids.flatMap((session) => [session, sessions.indexOf(session)])],
          until,
          "reads",
        ),
      ),
    );
    const [note, id] = noteOf(name);
    await call("done", note, [id], until, "reads");
  }

  async function drop(name: string, sessions: string[], buckets: number, until: number): Promise<void> {
    await Promise.all(
      byBucket(sessions, buckets).map(([bucket, ids]) => call("drop", key(bucket), [name, ...ids], until, "reads")),
    );
  }

  /**
   * Settles the intent that a session was found with. A reader leaves one that is pending alone, as nothing of it is
   * stored: then the answer is false, and what was read holds. A writer waits for it, and gives it up if that takes too long.
   */
  async function settle(
    session: string,
    name: string,
    buckets: number,
    until: number,
    who: "reader" | "writer",
  ): Promise<boolean> {
    const [note, id] = noteOf(name);
    const late = performance.now() + moment;
    for (let pause = 1; ; pause = Math.min(pause * 2, 20)) {
      const [state, sessions] = (await call("state", note, [id], until, "reads")) as [string | null, string | null];
      if (state === null) {
        await drop(name, [session], buckets, until);
        return true;
      }
      if (state !== "pending") {
        await finish(name, state, JSON.parse(sessions ?? "[]") as string[], buckets, until);
        return true;
      }
      if (who === "reader") return false;
      if (performance.now() > late) await call("abort", note, [id], until, "reads");
      else await delay(pause * (0.5 + Math.random()));
      if (performance.now() > until) throw busy();
    }
  }

  const busy = (): HoldfastError =>
    new HoldfastError("store_busy", `the Redis store ${shown} had other writers on these sessions for too long`);

  /** What a script said: an answer, or the session and the intent that are in the way, which are settled. */
  async function answered(answer: unknown, buckets: number, until: number): Promise<Appended | undefined> {
    if (!Array.isArray(answer)) return answer as Appended;
    const [session, name] = answer as [string, string];
    await settle(session, name, buckets, until, "writer");
    if (performance.now() > until) throw busy();
    return undefined;
  }

  /** Appends to sessions of one bucket. */
  async function appendTo(bucket: number, commits: Prepared[], buckets: number, until: number): Promise<Appended> {
    const [first] = commits as [Prepared];
    // Where sessions expire there is more to do.
    if (first.isOne && commits.length === 1 && expire === 0) {
      const answer = await call("one", key(bucket), first.args, until, "writes");
      if (answer !== null) return answer as Appended;
    }
    const args = [expire, ...commits.flatMap(wholeArgs)];
    for (;;) {
      const said = await call("append", key(bucket), args, until, "writes");
      const answer = typeof said === "string" ? (said as Appended) : await answered(said, buckets, until);
      if (answer !== undefined) return answer;
    }
  }

  /** What would be answered, all of them being asked. */
  async function judge(groups: [number, Prepared[]][], buckets: number, until: number): Promise<Appended> {
    const answers = await Promise.all(
      groups.map(async ([bucket, commits]) => {
        const args = commits.flatMap(wholeArgs);
        for (;;) {
          const answer = await answered(await call("judge", key(bucket), args, until, "reads"), buckets, until);
          if (answer !== undefined) return answer;
        }
      }),
    );
    return answers.find((answer) => answer === "duplicate") ?? answers.find((answer) => answer === "conflict") ?? "ok";
  }

  /** One try to append to several buckets. Undefined if others were in the way and it is to be tried again. */
  async function tryAll(
    sessions: string[],
    groups: [number, Prepared[]][],
    buckets: number,
    until: number,
  ): Promise<Appended | undefined> {
    const refusal = await judge(groups, buckets, until);
    if (refusal !== "ok") return refusal;
    const name = `${groups[0]![0]}/${randomUUID()}`;
    const [note, id] = noteOf(name);
    await call("intend", note, [id, JSON.stringify(sessions)], until, "writes");
    // In the order of their numbers, so that of two writers in each other's way one always gets on.
    for (const [bucket, commits] of groups) {
      const args = [name, expire, ...commits.flatMap(wholeArgs)];
      let answer: Appended | undefined;
      while (answer === undefined) {
        answer = await answered(await call("prepare", key(bucket), args, until, "writes"), buckets, until);
      }
      if (answer === "ok") continue;
      await call("abort", note, [id], until, "reads");
      await drop(name, sessions, buckets, until);
      return undefined;
    }
    const stamp = (await call("commit", note, [id, sessions.length], until, "writes")) as string | null;
    if (stamp === null) {
      await drop(name, sessions, buckets, until);
      return undefined;
    }
    // It is stored by now. If this fails, whoever comes upon one of the sessions goes on with it.
    await finish(name, stamp, sessions, buckets, until).catch(() => {});
    return "ok";
  }

  /** The last of those of this process that append to a session and others. */
  const last = new Map<string, Promise<unknown>>();

  /** Runs after those who asked before for one of the sessions: they would only be in each other's way. */
  async function inTurn<T>(sessions: string[], run: () => Promise<T>): Promise<T> {
    const before = Promise.all(sessions.map((session) => last.get(session)));
    const turn = before.then(run);
    const ended = turn.then(
      () => {},
      () => {},
    );
    for (const session of sessions) last.set(session, ended);
    try {
      return await turn;
    } finally {
      for (const session of sessions) if (last.get(session) === ended) last.delete(session);
    }
  }

  function append(commits: Prepared[], buckets: number, until: number): Promise<Appended> {
    const [first] = commits as [Prepared, ...Prepared[]];
    if (commits.length === 1) return appendTo(bucketOf(first.session, buckets), commits, buckets, until);
    const groups = new Map<number, Prepared[]>();
    for (const commit of commits) {
      const bucket = bucketOf(commit.session, buckets);
      const group = groups.get(bucket);
      if (group) group.push(commit);
      else groups.set(bucket, [commit]);
    }
    if (groups.size === 1) return appendTo(bucketOf(first.session, buckets), commits, buckets, until);
    const sessions = commits.map(({ session }) => session);
    const sorted = [...groups].sort(([a], [b]) => a - b);
    return inTurn(sessions, async () => {
      for (;;) {
        if (performance.now() > until) throw busy();
        const answer = await tryAll(sessions, sorted, buckets, until);
        if (answer !== undefined) return answer;
      }
    });
  }

  return { append, settle };
}
