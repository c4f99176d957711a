// Writing: commits to one session, one conditional put for all that wait; and commits to several, decided by an intent.
import { HoldfastError } from "../../core/errors.ts";
import type { Appended, Commit, Store } from "../../core/store.ts";
import type { Client, Deadline, Put } from "./client.ts";
import { deadlineFor } from "./client.ts";
import type { Birth, Head } from "./head.ts";
import { copyOfCommit, emptyHead, encodeHead, judge, nameOf, pendingOf, randomMark, settled } from "./head.ts";
import type { Heads, Known, State } from "./heads.ts";
import { headKey, intentKey } from "./heads.ts";
import type { Ladder } from "./ladder.ts";
import { folderOf, inParallel, isDue, parallel, sizeOf, without } from "./ladder.ts";
import type { Waiting } from "./lines.ts";
import { createLines } from "./lines.ts";
import { indexKey, nextOrder } from "./order.ts";

type End = Parameters<Store["delete"]>[1];

interface Job {
  commit: Commit;
  deadline: Deadline;
}

export interface WritingParts {
  client: Client;
  heads: Heads;
  ladder: Ladder;
  /** Starts what nobody waits for but `close`. */
  background(task: () => Promise<unknown>): void;
  /** What the service can do; rejects if that is not enough. */
  ready(): Promise<Abilities>;
}

export interface Abilities {
  /** Whether a delete can be conditional. */
  removesIf: boolean;
}

/** A head with more than this in it waits until that was moved out, in characters. */
const mostInHead = 1024 * 1024;
/** How long heads may keep what was decided, in milliseconds: most are put again before that. */
const settleAfter = 1000;

export function createWriter({ client, heads, ladder, background, ready }: WritingParts) {
  const lines = createLines<Job>(serve);
  const unsettled = new Map<string, { sessions: string[]; timer: NodeJS.Timeout }>();

  /** Puts a head over the one that is known. False if it was another one by then. */
  async function put(known: Known, state: State, next: Head, deadline: Deadline): Promise<boolean> {
    if (known.moving && sizeOf(next) > mostInHead) await known.moving;
    const trimmed = (known.moved && without(next, known.moved)) ?? next;
    const raw = { ...trimmed, mark: randomMark() };
    const condition = state.etag === undefined ? ({ absent: true } as const) : { etag: state.etag };
    const body = encodeHead(raw);
    // Whatever comes of it: used now, or of no use any more.
    known.moved = undefined;
    let answer: Put;
    try {
      answer = await client.putIf(headKey(nameOf(known.session)), body, condition, deadline);
    } catch (thrown) {
      heads.learn(known, undefined);
      throw thrown;
    }
    if (typeof answer === "object") {
      heads.learn(known, { raw, head: settled(raw, false), etag: answer.etag, undecided: raw.pending?.intent });
      return true;
    }
    heads.learn(known, undefined);
    return answer === "unclear" && isApplied(known.session, raw, state.head, deadline);
  }

  /** Of a put that was refused after a try that went unanswered: whether that try was the reason. */
  async function isApplied(session: string, ours: Head, before: Head, deadline: Deadline): Promise<boolean> {
    const { head, raw } = await heads.look(session, deadline);
    if (raw.mark === ours.mark) return true;
    // Nobody puts over what is pending before it is decided: it would be there.
    if (ours.pending) return false;
    // A mark of deletion of ours would be there: it was another that deleted it, or nobody.
    if (ours.version === 0 && (head.version === 0 || head.life === before.life)) return false;
    if (ours.version === 0 || head.life !== ours.life) {
      const message = `session ${JSON.stringify(session)} in ${client.name} was opened or deleted by others`;
      throw new HoldfastError("store_failed", `${message} while a request to change it went unanswered`);
    }
    if (head.version < ours.version) return false;
    const [entry] = await ladder.entries(head, ours.version, ours.version, deadline);
    return entry !== undefined && entry.mark === ours.tail.at(-1)?.mark;
  }

  /** What is known of a session, or, if that is nothing, what it is now. */
  async function stateOf(known: Known, deadline: Deadline): Promise<{ state: State; isFresh: boolean }> {
    const { state } = known;
    if (state && state.undecided === undefined) return { state, isFresh: false };
    return { state: await lookAgain(known, deadline), isFresh: true };
  }

  /** The session as it is now. What is known says so too, also if others took its place among those remembered. */
  async function lookAgain(known: Known, deadline: Deadline): Promise<State> {
    const state = await heads.lookDecided(known.session, deadline);
    if (heads.knownOf(known.session) !== known) heads.learn(known, state);
    return state;
  }

  const hasKeys = ({ entries }: Commit): boolean => entries.some(({ key }) => key !== undefined);

  /** Commits of one session: judged one after the other, and all that are in order put at once. */
  async function serve(session: string, group: Waiting<Job>[]): Promise<void> {
    const now = performance.now();
    const isLate = ({ item }: Waiting<Job>): boolean => client.isLate(item.deadline);
    for (const { reject } of group.filter(isLate)) reject(heads.busy(session));
    const jobs = group.filter((job) => !isLate(job));
    if (jobs.length === 0) return;
    const deadline = Math.max(jobs[0]!.item.deadline, now + 1000);
    await ready();
    const known = heads.knownOf(session);
    let isFresh = false;
    let index: string | undefined;
    for (;;) {
      const { state, ...found } = await stateOf(known, deadline);
      isFresh ||= found.isFresh;
      const keys = jobs.some(({ item }) => hasKeys(item.commit))
        ? await heads.keysOf(session, state.head, deadline)
        : new Map<string, number>();
      const birth: Birth = { life: randomMark(), order: nextOrder() };
      const mark = randomMark();
      const { next, answers } = judgeAll(state.head, jobs, keys, birth, mark);
      const isOpening = next.version > 0 && state.head.version === 0;
      if (next === state.head && !isFresh) {
        // A refusal is only as good as what it was judged by.
        await lookAgain(known, deadline);
        isFresh = true;
        continue;
      }
      if (isOpening) {
        // Before the log, so that there is never one that no listing finds.
        if (index !== undefined) drop(index);
        index = indexKey(birth.order, nameOf(session));
        await client.put(index, "", deadline);
      }
      if (next !== state.head && !(await put(known, state, next, deadline))) {
        await lookAgain(known, deadline);
        isFresh = true;
        if (client.isLate(deadline)) throw heads.busy(session);
        continue;
      }
      if (next !== state.head) committed(known, state.head, next);
      if (index !== undefined && !isOpening) drop(index);
      for (const [at, job] of jobs.entries()) {
        const answer = answers[at]!;
        if (answer instanceof Error) job.reject(answer);
        else job.resolve(answer as never);
      }
      return;
    }
  }

  /** What a head becomes with those of the commits that are in order, and the answer to each. */
  function judgeAll(
    head: Head,
    jobs: Waiting<Job>[],
    keys: ReadonlyMap<string, number>,
    birth: Birth,
    mark: string,
  ): { next: Head; answers: (Appended | Error)[] } {
    let next = head;
    const added = new Set<string>();
    const answers = jobs.map(({ item: { commit } }, at): Appended | Error => {
      try {
        const answer = judge(next, commit, (key) => added.has(key) || (keys.get(key) ?? Infinity) <= head.version);
        if (answer !== "ok") return answer;
      } catch (error) {
        return error as Error;
      }
      next = settled({ ...next, pending: pendingOf(next, commit, "", `${mark}${at}`, birth) }, true);
      for (const { key } of commit.entries) if (key !== undefined) added.add(key);
      return "ok";
    });
    return { next, answers };
  }

  /** Notes what a put has made true. */
  function committed(known: Known, before: Head, after: Head): void {
    const { keys } = known;
    if (before.version === 0) known.keys = { life: after.life, upTo: after.version, versions: new Map() };
    else if (keys.life !== after.life || keys.upTo !== before.version) return moveIfDue(known);
    known.keys.upTo = after.version;
    const count = after.version - before.version;
    for (const [at, { key }] of after.tail.slice(-count).entries()) {
      if (key !== undefined) known.keys.versions.set(key, before.version + at + 1);
    }
    moveIfDue(known);
  }

  /** Moves the newest part of a log out of its head, beside what goes on. If it fails, a later commit tries again. */
  function moveIfDue(known: Known): void {
    const head = known.state?.head;
    if (!head || known.moving || known.moved || !isDue(head)) return;
    known.moving = heads
      .keysOf(known.session, head, deadlineFor())
      .then((keys) => ladder.move(head, keys))
      .then(
        (moved) => void (known.moved = moved),
        () => undefined,
      )
      .finally(() => (known.moving = undefined));
    const { moving } = known;
    background(() => moving);
  }

  function drop(...keys: string[]): void {
    background(() => inParallel(keys, parallel, (key) => client.remove(key, deadlineFor())));
  }

  /**
   * Commits of several sessions: each is put as pending, in an order that is the same for everyone, so that of two
   * writers who meet one is first everywhere. Then the intent decides on all of them.
   */
  async function together(commits: Commit[], deadline: Deadline): Promise<Appended> {
    await ready();
    const sorted = commits.toSorted((a, b) => (nameOf(a.session) < nameOf(b.session) ? -1 : 1));
    const parts = sorted.map((commit) => ({ commit, known: heads.knownOf(commit.session) }));
    const judged = async ({ commit, known }: (typeof parts)[number]): Promise<Appended> => {
      const { head } = (await stateOf(known, deadline)).state;
      const keys = hasKeys(commit) ? await heads.keysOf(commit.session, head, deadline) : new Map<string, number>();
      return judge(head, commit, (key) => (keys.get(key) ?? Infinity) <= head.version);
    };
    const judgedAll = async (): Promise<Appended> => {
      const answers = new Set(await inParallel(parts, parallel, judged));
      return answers.has("duplicate") ? "duplicate" : answers.has("conflict") ? "conflict" : "ok";
    };

    for (let isFresh = false; ;) {
      const answer = await judgedAll();
      if (answer !== "ok" && isFresh) return answer;
      if (answer !== "ok") {
        await inParallel(parts, parallel, ({ known }) => lookAgain(known, deadline));
        isFresh = true;
        continue;
      }
      const intent = randomMark();
      const births = new Map<string, Birth>();
      for (const { session, version } of sorted) {
        if (version === 0) births.set(session, { life: randomMark(), order: "" });
      }
      // In the order in which they were handed over.
      for (const { session } of commits) if (births.has(session)) births.get(session)!.order = nextOrder();
      const indexes = [...births].map(([session, { order }]) => indexKey(order, nameOf(session)));
      await inParallel(indexes, parallel, (key) => client.put(key, "", deadline));

      const waiting: Known[] = [];
      let isDecided = false;
      try {
        let isWhole = true;
        for (const part of parts) {
          isWhole = await putPending(
            part.commit,
            part.known,
            intent,
            births.get(part.commit.session),
            deadline,
            judged,
          );
          if (!isWhole) break;
          waiting.push(part.known);
        }
        const decision = await heads.decide(intent, isWhole ? "committed" : "aborted", deadline);
        isDecided = true;
        for (const known of waiting) applyDecision(known, intent, decision === "committed");
        settleLater(
          intent,
          waiting.map(({ session }) => session),
        );
        if (decision === "committed") return "ok";
        drop(...indexes);
      } finally {
        if (!isDecided) {
          for (const known of waiting) heads.learn(known, undefined);
          // So that others need not wait for it. If the decision is under way, this comes too late, as it should.
          background(() => heads.decide(intent, "aborted", deadlineFor()));
        }
      }
      isFresh = false;
      if (client.isLate(deadline)) throw heads.busy(sorted[0]!.session);
    }
  }

  /** Puts a commit as pending. False if it is not in order any more. */
  async function putPending(
    commit: Commit,
    known: Known,
    intent: string,
    birth: Birth | undefined,
    deadline: Deadline,
    judged: (part: { commit: Commit; known: Known }) => Promise<Appended>,
  ): Promise<boolean> {
    const mark = randomMark();
    for (;;) {
      const { state } = await stateOf(known, deadline);
      if ((await judged({ commit, known })) !== "ok") return false;
      if (client.isLate(deadline)) throw heads.busy(commit.session);
      if (known.state !== state) continue;
      const pending = pendingOf(state.head, commit, intent, mark, birth ?? { life: "", order: "" });
      if (await put(known, state, { ...state.head, pending }, deadline)) return true;
      if (client.isLate(deadline)) throw heads.busy(commit.session);
      await lookAgain(known, deadline);
    }
  }

  function applyDecision(known: Known, intent: string, isCommitted: boolean): void {
    const { state } = known;
    if (state?.raw.pending?.intent !== intent) return heads.learn(known, undefined);
    const head = settled(state.raw, isCommitted);
    const before = state.head;
    heads.learn(known, { ...state, head, undecided: undefined });
    if (isCommitted) committed(known, before, head);
  }

  /** Removes what was decided from the heads, and then the intent. If it is not done, the next put of each head does it. */
  function settleLater(intent: string, sessions: string[]): void {
    const timer = setTimeout(() => settleNow(intent), settleAfter).unref();
    unsettled.set(intent, { sessions, timer });
  }

  function settleNow(intent: string): void {
    const { sessions, timer } = unsettled.get(intent)!;
    clearTimeout(timer);
    unsettled.delete(intent);
    background(async () => {
      await inParallel(sessions, parallel, (session) => lines.alone([session], () => settle(session, intent)));
      await client.remove(intentKey(intent), deadlineFor());
    });
  }

  async function settle(session: string, intent: string): Promise<void> {
    const known = heads.knownOf(session);
    const deadline = deadlineFor();
    const state = known.state ?? (await heads.look(session, deadline));
    if (state.raw.pending?.intent !== intent) return;
    // Refused means that somebody put it again, and with that without what was pending.
    await put(known, state, state.head, deadline);
  }

  async function remove(session: string, end: End, deadline: Deadline): Promise<boolean> {
    await ready();
    const known = heads.knownOf(session);
    let isFresh = false;
    for (;;) {
      const found = await stateOf(known, deadline);
      const state = isFresh ? await lookAgain(known, deadline) : found.state;
      isFresh ||= found.isFresh;
      const { head } = state;
      const isMeant = !end || (head.version === end.version && head.touched === (end.seen ?? head.touched));
      if ((head.version === 0 || !isMeant) && isFresh) return false;
      if (head.version > 0 && isMeant && (await put(known, state, emptyHead(session), deadline))) {
        background(() => clean(known, head));
        return true;
      }
      isFresh = true;
      if (client.isLate(deadline)) throw heads.busy(session);
    }
  }

  /** Removes all objects of a log that was deleted; the head last, and only if the session was not opened again. */
  async function clean(known: Known, head: Head): Promise<void> {
    const etag = known.state?.head.version === 0 ? known.state.etag : undefined;
    await known.moving;
    for (let more = true; more;) {
      const page = await client.list(folderOf(head), undefined, deadlineFor());
      await inParallel(page.objects, parallel, ({ key }) => client.remove(key, deadlineFor()));
      more = page.more;
    }
    await client.remove(indexKey(head.order, nameOf(head.session)), deadlineFor());
    if (etag !== undefined && (await ready()).removesIf)
      await client.remove(headKey(nameOf(head.session)), deadlineFor(), etag);
  }

  return {
    append(commits: Commit[]): Promise<Appended> {
      const size = commits.reduce((sum, { entries, snapshot }) => {
        return sum + (snapshot?.body.length ?? 0) + entries.reduce((sum, { body }) => sum + body.length, 0);
      }, 0);
      const deadline = deadlineFor(size);
      const copies = commits.map(copyOfCommit);
      const [first] = copies;
      if (copies.length === 1) return lines.join<Appended>(first!.session, { commit: first!, deadline });
      const sessions = copies.map(({ session }) => session);
      return lines.alone(sessions, () => together(copies, Math.max(deadline, performance.now() + 1000)));
    },

    remove: (session: string, end: End): Promise<boolean> => {
      const deadline = deadlineFor();
      return lines.alone([session], () => remove(session, end, Math.max(deadline, performance.now() + 1000)));
    },

    /** Waits for what is being written. */
    async idle(): Promise<void> {
      await lines.idle();
      for (const intent of Array.from(unsettled.keys())) settleNow(intent);
    },
  };
}
