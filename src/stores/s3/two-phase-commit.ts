// Commits to several sessions: each head is put with its commit as pending, and then one object decides all of them.
import type { Appended } from "../../core/store.ts";
import type { Call, Unit, Write } from "../front.ts";
import { inParallel, parallel } from "./chunks.ts";
import { backgroundCall } from "./client.ts";
import { hasKeys, type Commits, type WritingParts } from "./commit.ts";
import { judge, nameOf, pendingOf, randomMark, settled, type Birth } from "./head.ts";
import { intentKey, type Known } from "./head-cache.ts";
import { indexKey, nextOrder } from "./opening-index.ts";

/** Milliseconds for which heads may keep a decided commit as pending. Most heads are put again before that. */
const settleAfter = 1000;

interface Part {
  write: Write;
  known: Known;
}

export function createTwoPhaseCommit({ client, heads, background, ready }: WritingParts, commits: Commits) {
  const { put, stateOf, lookAgain, committed, drop } = commits;
  const unsettled = new Map<string, { sessions: string[]; timer: NodeJS.Timeout }>();

  async function judged({ write, known }: Part, call: Call): Promise<Appended> {
    const { head } = (await stateOf(known, call)).state;
    const keys = hasKeys(write) ? await heads.keysOf(write.session, head, call) : new Map<string, number>();
    return judge(head, write, (key) => (keys.get(key) ?? Infinity) <= head.version);
  }

  async function judgedAll(parts: Part[], call: Call): Promise<Appended> {
    const answers = new Set(await inParallel(parts, parallel, (part) => judged(part, call)));
    return answers.has("duplicate") ? "duplicate" : answers.has("conflict") ? "conflict" : "ok";
  }

  /** All writers put heads in the same order, so that one of two conflicting writers is first at every head. */
  async function append(unit: Unit, call: Call): Promise<Appended> {
    await ready();
    const sorted = unit.toSorted((a, b) => (nameOf(a.session) < nameOf(b.session) ? -1 : 1));
    const parts = sorted.map((write): Part => ({ write, known: heads.knownOf(write.session) }));
    for (let isFresh = false; ;) {
      const answer = await judgedAll(parts, call);
      if (answer !== "ok" && isFresh) return answer;
      if (answer !== "ok") {
        await inParallel(parts, parallel, ({ known }) => lookAgain(known, call));
        isFresh = true;
        continue;
      }
      if (await attempt(unit, parts, call)) return "ok";
      isFresh = false;
      if (client.isLate(call)) throw heads.busy(sorted[0]!.session);
    }
  }

  /** Tries once to append a unit. Returns false if other writers interfered. */
  async function attempt(unit: Unit, parts: Part[], call: Call): Promise<boolean> {
    const intent = randomMark();
    const births = new Map<string, Birth>();
    // New sessions get places in the order of their commits.
    for (const { session, seen } of unit) {
      if (seen.version === 0) births.set(session, { life: randomMark(), order: nextOrder() });
    }
    const indexes = [...births].map(([session, { order }]) => indexKey(order, nameOf(session)));
    await inParallel(indexes, parallel, (key) => client.put(key, "", call));

    const waiting: Known[] = [];
    let isDecided = false;
    try {
      let isWhole = true;
      for (const part of parts) {
        isWhole = await putPending(part, intent, births.get(part.write.session), call);
        if (!isWhole) break;
        waiting.push(part.known);
      }
      const decision = await heads.decide(intent, isWhole ? "committed" : "aborted", call);
      isDecided = true;
      for (const known of waiting) applyDecision(known, intent, decision === "committed");
      settleLater(
        intent,
        waiting.map(({ session }) => session),
      );
      if (decision !== "committed") drop(...indexes);
      return decision === "committed";
    } finally {
      if (!isDecided) {
        for (const known of waiting) heads.learn(known, undefined);
        // Aborts the intent, so that other writers need not wait. This has no effect if another process has decided it.
        background(() => heads.decide(intent, "aborted", backgroundCall()));
      }
    }
  }

  /** Puts a commit as pending. Returns false if the log has changed and refuses the commit. */
  async function putPending(part: Part, intent: string, birth: Birth | undefined, call: Call): Promise<boolean> {
    const { write, known } = part;
    const mark = randomMark();
    for (;;) {
      const { state } = await stateOf(known, call);
      if ((await judged(part, call)) !== "ok") return false;
      if (client.isLate(call)) throw heads.busy(write.session);
      if (known.state !== state) continue;
      const pending = pendingOf(state.head, write, intent, mark, birth ?? { life: "", order: "" });
      if (await put(known, state, { ...state.head, pending }, call)) return true;
      if (client.isLate(call)) throw heads.busy(write.session);
      await lookAgain(known, call);
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

  /** After a pause, puts the heads that still have the pending commit without it, and deletes the decision. */
  function settleLater(intent: string, sessions: string[]): void {
    const timer = setTimeout(() => settleNow(intent), settleAfter).unref();
    unsettled.set(intent, { sessions, timer });
  }

  function settleNow(intent: string): void {
    const { sessions, timer } = unsettled.get(intent)!;
    clearTimeout(timer);
    unsettled.delete(intent);
    background(async () => {
      await inParallel(sessions, parallel, (session) => settle(session, intent));
      await client.remove(intentKey(intent), backgroundCall());
    });
  }

  async function settle(session: string, intent: string): Promise<void> {
    const known = heads.knownOf(session);
    const call = backgroundCall();
    const state = known.state ?? (await heads.look(session, call));
    if (state.raw.pending?.intent !== intent) return;
    // A refusal means that another process has put the head without the pending commit.
    await put(known, state, state.head, call);
  }

  return {
    append,
    /** Settles all intents. Called when nothing is being written. */
    settleAll(): void {
      for (const intent of Array.from(unsettled.keys())) settleNow(intent);
    },
  };
}
