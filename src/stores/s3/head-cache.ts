// Reads and caches heads, and resolves their pending commits.
import { setTimeout as delay } from "node:timers/promises";
import { HoldfastError } from "../../core/errors.ts";
import type { Call } from "../front.ts";
import { sizeOf, type Chunks, type Moved } from "./chunks.ts";
import type { Client } from "./client.ts";
import { corrupt, decodeHead, decodeSummary, emptyHead, nameOf, settled, type Head, type Summary } from "./head.ts";

/** A session at one time. */
export interface State {
  /** The stored head. */
  raw: Head;
  /** The effective head: with or without the pending commit. */
  head: Head;
  /** The etag of the object; undefined if it is missing. */
  etag: string | undefined;
  /** The undecided intent of the pending commit, if any. */
  undecided: string | undefined;
}

/** The keys of a log up to a version. */
interface Keys {
  life: string;
  upTo: number;
  versions: Map<string, number>;
}

export interface Known {
  readonly session: string;
  state: State | undefined;
  /** Counts the changes of `state`. An answer that was requested before a change is outdated. */
  turn: number;
  keys: Keys;
  moved: Moved | undefined;
  moving: Promise<void> | undefined;
  weight: number;
}

/** Maximum characters and sessions in the cache. */
const mostWeight = 64 * 1024 * 1024;
const mostKnown = 20_000;
/** Milliseconds that a writer waits for another writer's decision before it decides itself. */
export const intentTimeLimit = 3000;
/** Number of bytes that contain the first line of a head, unless names are very long. */
const summaryBytes = 2048;

export type Decision = "committed" | "aborted";
export type Heads = ReturnType<typeof createHeads>;

export const headKey = (name: string): string => `heads/${name}`;
export const intentKey = (intent: string): string => `intents/${intent}`;

export function createHeads(client: Client, chunks: Chunks) {
  const all = new Map<string, Known>();
  const decisions = new Map<string, Decision>();
  let weight = 0;

  function knownOf(session: string): Known {
    let known = all.get(session);
    if (known) all.delete(session);
    else {
      const keys = { life: "", upTo: 0, versions: new Map<string, number>() };
      known = { session, state: undefined, turn: 0, keys, moved: undefined, moving: undefined, weight: 0 };
    }
    all.set(session, known);
    return known;
  }

  /** Sets the known state; undefined if it must be read again. */
  function learn(known: Known, state: State | undefined): void {
    known.state = state;
    known.turn++;
    if (all.get(known.session) !== known) return;
    const now = 500 + (state ? sizeOf(state.head) : 0) + 64 * known.keys.versions.size;
    weight += now - known.weight;
    known.weight = now;
    for (const [session, oldest] of weight > mostWeight || all.size > mostKnown ? all : []) {
      if (oldest === known) break;
      all.delete(session);
      weight -= oldest.weight;
      if (weight <= mostWeight && all.size <= mostKnown) break;
    }
  }

  function remember(intent: string, decision: Decision): void {
    if (decisions.size > 10_000) decisions.clear();
    decisions.set(intent, decision);
  }

  /** Reads the decision on an intent, if there is one. */
  async function decisionOn(intent: string, call: Call): Promise<Decision | undefined> {
    const known = decisions.get(intent);
    if (known) return known;
    const found = await client.get(intentKey(intent), call);
    if (found === undefined || found === "same") return undefined;
    if (found.text !== "committed" && found.text !== "aborted") throw corrupt(`${intentKey(intent)} of ${client.name}`);
    remember(intent, found.text);
    return found.text;
  }

  /** Decides an intent, unless it is already decided. Returns the final decision. */
  async function decide(intent: string, decision: Decision, call: Call): Promise<Decision> {
    const put = await client.putIf(intentKey(intent), decision, { absent: true }, call);
    if (typeof put === "object") remember(intent, decision);
    // A refusal means that a decision exists. It is deleted only after no head waits for it.
    else return (await decisionOn(intent, call)) ?? "aborted";
    return decision;
  }

  /**
   * Reads the current session, without a commit whose intent is undecided. The head must be unchanged after the intent
   * was read, because intents are deleted once no head waits for them.
   */
  async function look(session: string, call: Call): Promise<State> {
    const known = knownOf(session);
    const key = headKey(nameOf(session));
    for (;;) {
      const { turn, state: before } = known;
      const found = await client.get(key, call, { known: before?.etag });
      if (found === "same" && before?.undecided === undefined) return before!;
      const raw =
        found === "same"
          ? before!.raw
          : found
            ? decodeHead(found.text, `${key} of ${client.name}`)
            : emptyHead(session);
      const etag = found === "same" ? before!.etag : found?.etag;
      if (raw.session !== session) throw corrupt(`${key} of ${client.name}`);
      const decision = raw.pending && (await decisionOn(raw.pending.intent, call));
      if (raw.pending && decision !== "committed" && (await client.get(key, call, { known: etag })) !== "same") {
        continue;
      }
      const head = settled(raw, decision === "committed");
      const state = { raw, head, etag, undecided: decision ? undefined : raw.pending?.intent };
      if (known.turn === turn) learn(known, state);
      return state;
    }
  }

  /** Reads the current session with all commits decided. Waits a short time for other writers. */
  async function lookDecided(session: string, call: Call): Promise<State> {
    const since = new Map<string, number>();
    for (;;) {
      const state = await look(session, call);
      if (state.undecided === undefined) return state;
      const now = performance.now();
      const first = since.get(state.undecided) ?? now;
      since.set(state.undecided, first);
      if (now - first > intentTimeLimit) await decide(state.undecided, "aborted", call);
      else if (client.isLate(call)) throw busy(session);
      else await delay(2 + Math.random() * Math.min(50, now - first + 5));
    }
  }

  function busy(session: string): HoldfastError {
    const message = `session ${JSON.stringify(session)} in ${client.name} is locked by other writers`;
    return new HoldfastError("store_busy", message);
  }

  /** Returns the keys of a log, at least up to the version of this head. */
  async function keysOf(session: string, head: Head, call: Call): Promise<ReadonlyMap<string, number>> {
    const known = knownOf(session);
    if (known.keys.life !== head.life) known.keys = { life: head.life, upTo: 0, versions: new Map() };
    const { keys } = known;
    if (keys.upTo < head.version) {
      for (const [key, version] of await chunks.keys(head, keys.upTo, call)) keys.versions.set(key, version);
      keys.upTo = Math.max(keys.upTo, head.version);
    }
    return keys.versions;
  }

  /** Reads a session's row from the start of its head; "same" if the etag is unchanged and nothing is undecided. */
  async function peek(name: string, call: Call, seen?: string): Promise<Peek | "same"> {
    const key = headKey(name);
    for (;;) {
      let found = await client.get(key, call, { known: seen, bytes: summaryBytes });
      if (found === "same") return "same";
      if (found === undefined) return { etag: undefined, summary: undefined, isFinal: true };
      if (!found.text.includes("\n")) found = await client.get(key, call);
      if (found === undefined || found === "same") continue;
      const { pending, ...summary } = decodeSummary(
        found.text.slice(0, found.text.indexOf("\n")),
        `${key} of ${client.name}`,
      );
      const decision = pending && (await decisionOn(pending.intent, call));
      if (pending && decision !== "committed") {
        if ((await client.get(key, call, { known: found.etag, bytes: 1 })) !== "same") continue;
      }
      const { intent: _, ...instead } = pending ?? { intent: "" };
      const shown = decision === "committed" ? { ...summary, ...instead } : summary;
      return { etag: found.etag, summary: shown, isFinal: pending === undefined || decision !== undefined };
    }
  }

  return { knownOf, learn, look, lookDecided, keysOf, decide, decisionOn, peek, busy };
}

export interface Peek {
  etag: string | undefined;
  summary: Summary | undefined;
  /** Whether the head has no pending commit, so that its meaning cannot change. */
  isFinal: boolean;
}
