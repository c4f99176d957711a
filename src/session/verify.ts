// createVerify(): scores the state at a version, once. The verdict is stored as an event, so a second verify returns
// the same verdict. `rewards` scores the versions that changed the state, and records nothing.
import { hash } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { AnyEnvironment, VerifyContext } from "../core/environment.ts";
import { canonicalText } from "../core/digest.ts";
import { boundary, HoldfastError, invalidOption, isHoldfastError } from "../core/errors.ts";
import type { EventOf, NumberedEvent, Verdict } from "../core/event.ts";
import { verifiedKey } from "../core/event-key.ts";
import { copyJson, equalJson, type Json } from "../core/json.ts";
import { fold, verdictsOn, type Session } from "../core/session.ts";
import type { StepReward, Verification, VerifyOptions } from "../core/sessions.ts";
import { refuseUnknown } from "../core/suggest.ts";
import { guarded, HandlerCall, withinTime } from "./handler.ts";
import { cancelled, exclusive, withSnapshot, type Caller } from "./exclusive.ts";
import { timeNow, type Logs } from "./log.ts";
import type { OpenLog } from "./open-log.ts";
import { checkTask } from "./seed.ts";
import { thrownIn } from "./thrown.ts";

/** One attempt to reach a verdict. */
interface Asking extends Caller {
  version: number | undefined;
  response: Json | undefined;
  task: unknown;
  signal: AbortSignal | undefined;
  /** Whether the session was read from the store for this attempt. */
  isFresh: boolean;
}

const ofVerify: Record<keyof VerifyOptions, true> = { version: true, response: true, task: true, signal: true };

export function createVerify(options: { environment: AnyEnvironment; logs: Logs; timeout: number }) {
  const { environment, logs, timeout } = options;

  async function verify(log: OpenLog, options: VerifyOptions): Promise<Verification> {
    refuseUnknown("verify", options, ofVerify, invalidOption);
    const { version, response: given, task, signal } = options;
    if (signal?.aborted) throw cancelled(signal);
    const response = given === undefined ? undefined : copyJson(given, "response", "drop");
    const asking: Asking = { version, response, task, signal, isFresh: false, waited: 0 };
    // Without verdicts, skips the refresh: there is nothing to look up, and the commit detects an outdated state.
    const isKnown = version !== undefined || log.session.verdicts > 0;
    if (!isKnown) {
      const verification = await judgeSnapshot(log, asking);
      if (verification) return verification;
    }
    await exclusive(log, signal, () => logs.refresh(log), asking);
    asking.isFresh = true;
    return (await judgeSnapshot(log, asking)) as Verification;
  }

  /** Returns the caller's task to verify against, if any, or the refusal thrown by the caller's function. */
  async function taskFor(
    { episode, task }: Session,
    given: unknown,
  ): Promise<{ task?: Json; refusal?: HoldfastError }> {
    const isFunction = typeof given === "function";
    try {
      const asked: unknown = !isFunction ? given : episode === 0 ? undefined : await given(task);
      return asked === undefined ? {} : { task: await checkTask(environment, asked) };
    } catch (thrown) {
      if (isFunction && isHoldfastError(thrown)) return { refusal: thrown };
      throw thrown;
    }
  }

  /** Verifies the state in memory. If `isFresh` is false, returns undefined when the store has a newer state. */
  function judgeSnapshot(log: OpenLog, asking: Asking): Promise<Verification | undefined> {
    const { version, response, signal, isFresh } = asking;
    return withSnapshot(log, async (newest) => {
      const session = version === undefined ? newest : (await logs.load(log.id, version)).session;
      const { task, refusal } = await taskFor(session, asking.task);
      // A verdict is an event that does not change the state, so the judged version is the version of the last change.
      const judged = session.changed;
      const about = {
        session: log.id,
        version: judged,
        episode: session.episode,
        reseeds: Math.max(0, session.episodes - 1),
      };
      const verification = ({ ...verdict }: Verdict): Verification => {
        // A refusal is thrown only after the log has recorded it, because a client could learn something from it.
        if (refusal) throw refusal;
        return { reward: verdict.reward, verdict, ...about, verdicts: verdictsOn(log.session, about.episode) };
      };
      const other = task !== undefined && !equalJson(task, session.task) ? { task } : {};
      const question = { ...(response !== undefined && { response }), ...other };
      const asked = refusal ? { refused: true as const } : question;
      const digest = Object.keys(asked).length === 0 ? "" : hash("sha256", canonicalText(asked as Json), "base64url");
      const recorded = async (): Promise<Verification | undefined> => {
        const event = await logs.find(log.id, verifiedKey(judged, digest), asking);
        if (event?.type !== "session.verified") return undefined;
        // The verdict is newer than the session in memory. Refreshes, so that `verdictsOn` counts it.
        if (event.version > log.session.version) await exclusive(log, signal, () => logs.refresh(log), asking);
        return verification(event.verdict);
      };
      const before = isFresh ? await recorded() : undefined;
      if (before) return before;
      let verdict: Verdict;
      try {
        verdict = refusal
          ? { reward: 0, reason: refusal.message }
          : await judgedOnce(log, { judged, digest }, { ...session, ...other }, response, signal);
      } catch (thrown) {
        // The failure is recorded only if verify saw the newest state.
        if (!isFresh && (await isOutdated(log, newest))) return undefined;
        await recordFailure(log, { judged, digest, episode: about.episode }, thrown);
        throw thrown;
      }
      // The author's verify has run, so its verdict gets the store's whole time.
      asking.waited = 0;
      const record = (now: Session): EventOf<"session.verified"> | undefined => {
        if (!isFresh && now.version !== newest.version) return undefined;
        const at = timeNow(now);
        const earlier = about.episode !== now.episode && { episode: about.episode };
        return { type: "session.verified", at, judged, digest, verdict, ...earlier, ...asked };
      };
      const result = await exclusive(log, undefined, () => logs.commit(log, anytime, record), asking);
      if (result === "nothing") return undefined;
      // Two verifies ran concurrently. Both return the verdict that was recorded first.
      const first = result === "ok" ? undefined : await recorded();
      return first ?? verification(verdict);
    });
  }

  /** Records an error in the author's verify. The caller gets the error even if the store fails. */
  async function recordFailure(
    log: OpenLog,
    { episode, ...question }: Required<Pick<EventOf<"verify.failed">, "judged" | "digest" | "episode">>,
    error: unknown,
  ): Promise<void> {
    const thrown = thrownIn(error);
    if (!thrown || !isHoldfastError(error) || error.code !== "verify_failed") return;
    const { code, message } = error;
    const record = (now: Session): EventOf<"verify.failed"> => ({
      type: "verify.failed",
      at: timeNow(now),
      ...question,
      ...(episode !== now.episode && { episode }),
      error: { code, message },
      thrown,
    });
    await exclusive(log, undefined, () => logs.commit(log, anytime, record)).catch(() => undefined);
  }

  async function isOutdated(log: OpenLog, { version }: Session): Promise<boolean> {
    await exclusive(log, undefined, () => logs.refresh(log));
    return log.session.version !== version;
  }

  async function rewards(log: OpenLog, signal: AbortSignal | undefined): Promise<StepReward[]> {
    if (!environment.verify) throw unverifiable();
    const chosen = new Set(spread(await changes(log.id), mostRewards));
    const given: StepReward[] = [];
    let session: Session | undefined;
    for await (const event of logs.events(log.id)) {
      const { version } = event;
      const isJudged = chosen.has(version);
      // Lets the process do other work, because the store and the verifier may both answer synchronously.
      if (isJudged) await nextTurn();
      if (signal?.aborted) throw cancelled(signal);
      session = fold(session, event);
      if (!isJudged) continue;
      try {
        given.push({ version, reward: (await judge(log, session, version, undefined, signal)).reward });
      } catch (thrown) {
        if (signal?.aborted) throw cancelled(signal);
        if (!isHoldfastError(thrown) || thrown.code !== "verify_failed") throw thrown;
        given.push({ version, reward: null, error: thrown.message });
      }
    }
    return given;
  }

  /** Returns the versions that changed an episode's state. */
  async function changes(id: string): Promise<number[]> {
    const versions: number[] = [];
    let isSeeded = false;
    for await (const { version, delta, ...event } of logs.events(id)) {
      isSeeded ||=
        event.type === "session.seeded" || (event.type === "session.opened" && (event.parent?.episode ?? 0) > 0);
      if (isSeeded && delta !== undefined && delta.length > 0) versions.push(version);
    }
    return versions;
  }

  /** Lets a retry of a slow verify wait for the running one. A caller with a signal may stop, so it runs its own. */
  async function judgedOnce(
    log: OpenLog,
    { judged, digest }: { judged: number; digest: string },
    session: Session,
    response: Json | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Verdict> {
    const running = signal ? undefined : log.judging;
    if (running?.judged === judged && running.digest === digest) return running.verdict;
    const verdict = judge(log, session, judged, response, signal);
    if (signal) return verdict;
    const own = (log.judging = { judged, digest, verdict });
    try {
      return await verdict;
    } finally {
      if (log.judging === own) log.judging = undefined;
    }
  }

  async function judge(
    log: OpenLog,
    session: Session,
    judged: number,
    response: Json | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Verdict> {
    if (session.episode === 0) return { reward: 0, reason: "the session was never seeded" };
    const what = `verify of ${environment.name}`;
    const { verify } = environment;
    if (!verify) throw unverifiable();
    const { seed, turn: draws } = session.randomness;
    // Verify does not stop when the session ends, because an ended session can still be verified.
    const handler = new HandlerCall({
      session: log.id,
      at: timeNow(session),
      timeout,
      seed,
      draws: -draws,
      what,
      signal,
    });
    const { random, now } = handler;
    const context: VerifyContext<unknown, unknown> = {
      session: log.id,
      random,
      now,
      log: handler.log,
      signal: handler.signal,
      response: response === undefined ? undefined : copyJson(response, "response"),
      state: guarded(session.state) as never,
      task: guarded(session.task),
      events: () => eventsUpTo(log.id, judged),
    };
    return boundary("verify_failed", what, async () => toVerdict(await withinTime(handler, () => verify(context))));
  }

  async function eventsUpTo(id: string, version: number): Promise<NumberedEvent[]> {
    const events: NumberedEvent[] = [];
    for await (const event of logs.events(id)) {
      if (event.version > version) break;
      events.push(event);
    }
    return events;
  }

  function unverifiable(): HoldfastError {
    return new HoldfastError("verify_failed", `${environment.name} has no verify`);
  }

  return { verify, rewards };
}

/** Allows the commit even after the session has ended, because a verify does not change the state. */
const anytime = (): void => undefined;

/** Maximum number of versions that `rewards` scores, because verifiers may be slow and logs may be long. */
const mostRewards = 1_000;

/** Selects `most` evenly spaced items, including the first and the last. */
function spread<T>(all: T[], most: number): T[] {
  if (all.length <= most) return all;
  return Array.from({ length: most }, (_, at) => all[Math.round((at * (all.length - 1)) / (most - 1))] as T);
}

function toVerdict(value: unknown): Verdict {
  const verdict = typeof value === "object" ? copyJson(value, "the verdict", "drop") : { reward: value };
  const reward = (verdict as { reward?: unknown } | null)?.reward;
  if (typeof reward !== "number" || !Number.isFinite(reward)) {
    throw new Error(`it must return a finite reward, not ${typeof reward === "number" ? reward : typeof reward}`);
  }
  return verdict as Verdict;
}
