// Commits to one session: one conditional put of its head for all waiting writes. Also deletes sessions.
import { HoldfastError } from "../../core/errors.ts";
import type { Appended } from "../../core/store.ts";
import type { Call, End, Write } from "../front.ts";
import { folderOf, inParallel, isDue, parallel, sizeOf, without, type Chunks } from "./chunks.ts";
import { backgroundCall, type Client, type Put } from "./client.ts";
import type { Birth, Head } from "./head.ts";
import { emptyHead, encodeHead, endsAt, judge, nameOf, pendingOf, randomMark, settled } from "./head.ts";
import { headKey, type Heads, type Known, type State } from "./head-cache.ts";
import { indexKey, nextOrder } from "./opening-index.ts";

export interface WritingParts {
  client: Client;
  heads: Heads;
  chunks: Chunks;
  /** Starts background work. Only `close` waits for it. */
  background(task: () => Promise<unknown>): void;
  /** Returns the features of the service; rejects if a required feature is missing. */
  ready(): Promise<Abilities>;
}

export interface Abilities {
  /** Whether a delete can be conditional. */
  removesIf: boolean;
}

/** If the head has more characters than this, a commit waits until the head's contents have been moved out. */
const mostInHead = 1024 * 1024;

export type Commits = ReturnType<typeof createCommits>;

export function createCommits({ client, heads, chunks, background, ready }: WritingParts) {
  /** Replaces the known head; returns false if another process has replaced it. */
  async function put(known: Known, state: State, next: Head, call: Call): Promise<boolean> {
    if (known.moving && sizeOf(next) > mostInHead) await known.moving;
    const trimmed = (known.moved && without(next, known.moved)) ?? next;
    const raw = { ...trimmed, mark: randomMark() };
    const condition = state.etag === undefined ? ({ absent: true } as const) : { etag: state.etag };
    const body = encodeHead(raw);
    // The put uses the moved part, or the moved part is outdated.
    known.moved = undefined;
    let answer: Put;
    try {
      answer = await client.putIf(headKey(nameOf(known.session)), body, condition, call);
    } catch (thrown) {
      heads.learn(known, undefined);
      throw thrown;
    }
    if (typeof answer === "object") {
      heads.learn(known, { raw, head: settled(raw, false), etag: answer.etag, undecided: raw.pending?.intent });
      return true;
    }
    heads.learn(known, undefined);
    return answer === "unclear" && isApplied(known.session, raw, state.head, call);
  }

  /** Called when a put was refused after an unanswered attempt. Returns whether that attempt succeeded. */
  async function isApplied(session: string, ours: Head, before: Head, call: Call): Promise<boolean> {
    const { head, raw } = await heads.look(session, call);
    if (raw.mark === ours.mark) return true;
    // No process replaces a pending commit before it is decided, so ours would still be in the head.
    if (ours.pending) return false;
    // The head does not have our mark, so our deletion failed: another process deleted the log, or no process did.
    if (ours.version === 0 && (head.version === 0 || head.life === before.life)) return false;
    if (ours.version === 0 || head.life !== ours.life) {
      const message = `session ${JSON.stringify(session)} in ${client.name} was opened or deleted by another process`;
      throw new HoldfastError("store_failed", `${message} while this process waited for the answer to a write`);
    }
    if (head.version < ours.version) return false;
    const [entry] = await chunks.entries(head, ours.version, ours.version, call);
    return entry !== undefined && entry.mark === ours.tail.at(-1)?.mark;
  }

  /** Returns a session's known state; reads it if it is not known. */
  async function stateOf(known: Known, call: Call): Promise<{ state: State; isFresh: boolean }> {
    const { state } = known;
    if (state && state.undecided === undefined) return { state, isFresh: false };
    return { state: await lookAgain(known, call), isFresh: true };
  }

  /** Reads the state of a session and remembers it, even if the cache has dropped the session. */
  async function lookAgain(known: Known, call: Call): Promise<State> {
    const state = await heads.lookDecided(known.session, call);
    if (heads.knownOf(known.session) !== known) heads.learn(known, state);
    return state;
  }

  /** Writes to one session: checks the writes in order, and stores all accepted writes with one put. */
  async function commit(session: string, writes: Write[], call: Call): Promise<Appended[]> {
    await ready();
    const known = heads.knownOf(session);
    let isFresh = false;
    let index: string | undefined;
    for (;;) {
      const { state, ...found } = await stateOf(known, call);
      isFresh ||= found.isFresh;
      const keys = writes.some(hasKeys) ? await heads.keysOf(session, state.head, call) : new Map<string, number>();
      const birth: Birth = { life: randomMark(), order: nextOrder() };
      const { next, answers } = judgeAll(state.head, writes, keys, birth);
      const isOpening = next.version > 0 && state.head.version === 0;
      if (next === state.head && !isFresh) {
        // A refusal is final only if the state is current, so the state is read again.
        await lookAgain(known, call);
        isFresh = true;
        continue;
      }
      if (isOpening) {
        // The index entry is written before the log, so that listings find every log.
        if (index !== undefined) drop(index);
        index = indexKey(birth.order, nameOf(session));
        await client.put(index, "", call);
      }
      if (next !== state.head && !(await put(known, state, next, call))) {
        await lookAgain(known, call);
        isFresh = true;
        if (client.isLate(call)) throw heads.busy(session);
        continue;
      }
      if (next !== state.head) committed(known, state.head, next);
      if (index !== undefined && !isOpening) drop(index);
      return answers;
    }
  }

  /** Remembers the keys that a put has added. */
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

  /** Moves the newest part of a log out of its head, in the background. If it fails, a later commit retries it. */
  function moveIfDue(known: Known): void {
    const head = known.state?.head;
    if (!head || known.moving || known.moved || !isDue(head)) return;
    known.moving = heads
      .keysOf(known.session, head, backgroundCall())
      .then((keys) => chunks.move(head, keys))
      .then(
        (moved) => void (known.moved = moved),
        () => undefined,
      )
      .finally(() => (known.moving = undefined));
    const { moving } = known;
    background(() => moving);
  }

  function drop(...keys: string[]): void {
    background(() => inParallel(keys, parallel, (key) => client.remove(key, backgroundCall())));
  }

  async function remove(session: string, end: End | undefined, call: Call): Promise<boolean> {
    await ready();
    const known = heads.knownOf(session);
    let isFresh = false;
    for (;;) {
      const found = await stateOf(known, call);
      const state = isFresh ? await lookAgain(known, call) : found.state;
      isFresh ||= found.isFresh;
      const { head } = state;
      const isMeant = head.version > 0 && (!end || endsAt(head, end));
      if (!isMeant && isFresh) return false;
      if (isMeant && (await put(known, state, emptyHead(session), call))) {
        background(() => clean(known, head));
        return true;
      }
      isFresh = true;
      if (client.isLate(call)) throw heads.busy(session);
    }
  }

  /** Deletes all objects of a deleted log; the head last, and only if the session was not opened again. */
  async function clean(known: Known, head: Head): Promise<void> {
    const etag = known.state?.head.version === 0 ? known.state.etag : undefined;
    await known.moving;
    for (let more = true; more;) {
      const page = await client.list(folderOf(head), undefined, backgroundCall());
      await inParallel(page.objects, parallel, ({ key }) => client.remove(key, backgroundCall()));
      more = page.more;
    }
    await client.remove(indexKey(head.order, nameOf(head.session)), backgroundCall());
    if (etag !== undefined && (await ready()).removesIf)
      await client.remove(headKey(nameOf(head.session)), backgroundCall(), etag);
  }

  return { commit, remove, put, stateOf, lookAgain, committed, drop };
}

export const hasKeys = ({ entries }: Write): boolean => entries.some(({ key }) => key !== undefined);

/** Returns the head after the accepted writes, and the answer to each write. */
function judgeAll(
  head: Head,
  writes: Write[],
  keys: ReadonlyMap<string, number>,
  birth: Birth,
): { next: Head; answers: Appended[] } {
  let next = head;
  const mark = randomMark();
  const added = new Set<string>();
  const isTaken = (key: string): boolean => added.has(key) || (keys.get(key) ?? Infinity) <= head.version;
  const answers = writes.map((write, at): Appended => {
    const answer = judge(next, write, isTaken);
    if (answer !== "ok") return answer;
    next = settled({ ...next, pending: pendingOf(next, write, "", `${mark}${at}`, birth) }, true);
    for (const { key } of write.entries) if (key !== undefined) added.add(key);
    return "ok";
  });
  return { next, answers };
}
