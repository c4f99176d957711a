// createReverifier(): computes rewards again. Runs the current verify on a copy of each episode's log.
import { bareNames } from "../core/bare-names.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import { invalidOption, isHoldfastError, messageOf } from "../core/errors.ts";
import type { EventOf, NumberedEvent } from "../core/event.ts";
import { toFields, type Json } from "../core/json.ts";
import { pickTask, type TaskRow } from "../core/rollout.ts";
import type { Sessions } from "../core/sessions.ts";
import type { Entry, NewEntry, Store } from "../core/store.ts";
import { createSessions } from "../session/sessions.ts";
import { memoryStore } from "../stores/memory.ts";
import { copyLog } from "../stores/front/copy-log.ts";
import { createCallFinder, readLog } from "./episode-log.ts";
import { withoutTokens } from "./play/response.ts";
import { isOutcomeField, toVerdictFields } from "./row-fields.ts";

export interface ReverifyOptions {
  /** The store with the sessions; it is only read. */
  store: Store;
  environment: AnyEnvironment;
  /** Whether to compute a reward for every version that changed the state, too. */
  everyStep: boolean;
}

/** `failed`: the row has no reward now. `change`: the old and the new reward, if there was an old reward. */
export interface Reverified {
  row: TaskRow;
  failed: boolean;
  change?: { before: number; after: number };
}

type Reverify = (row: TaskRow) => Promise<Reverified>;

/**
 * Returns a function that verifies a row's episode again. A recorded verdict is final: verifying again returns the same
 * verdict. So the log is copied without the keys that find verdicts, and the store is left unchanged. A fork would not
 * be enough, because it lacks events that a verifier may read.
 */
export function createReverifier({ store, environment: current, everyStep }: ReverifyOptions): Reverify {
  return async (row) => {
    const { failure_kind: _, failure_reason: __, failure_stack: ___, mask_sample: ____, retried: _____, ...kept } = row;
    const session = row["session_id"];
    const events = typeof session === "string" ? await readLog(store, session) : undefined;
    if (typeof session !== "string") return failed(kept, "store", "the row has no session_id");
    if (!events) return failed(kept, "store", `the store does not have the session ${session}`);
    const copy = memoryStore();
    const sessions = createSessions({ environment: current, store: copy });
    try {
      assertSame(sessions.environment.name, events, session);
      const { environment, at: opened } = events[0] as EventOf<"session.opened">;
      const target = { to: copy, target: session, heading: { environment, opened } };
      // Without keys, a verdict in the copy can be read but is not returned again.
      const change = ({ body, at }: Entry): NewEntry => ({ body, at });
      await copyLog({ from: store, source: session, upTo: events.length, ...target, change });
      const unjudged = withoutVerdict(kept, events);
      const judge = createJudge(sessions, session, taskNow(sessions, unjudged, events));
      return await judged(row, unjudged, judge, everyStep ? events : undefined);
    } finally {
      await sessions.stop();
      await copy.close();
    }
  };
}

type Judge = (response: Json | undefined, version?: number) => Promise<TaskRow>;

function createJudge(sessions: Sessions, session: string, task: TaskRow | undefined): Judge {
  return async (given, version) => {
    // As in the episode, verify gets the response without tokens and with the environment's own tool names.
    const response = given && withoutTokens(bareNames(given, sessions.environment));
    return (await sessions.verify(session, { response, version, task })).verdict;
  };
}

async function judged(
  before: TaskRow,
  kept: TaskRow,
  judge: Judge,
  events: NumberedEvent[] | undefined,
): Promise<Reverified> {
  const response = kept["response"];
  try {
    const verdict = await judge(response);
    const steps = events && (await stepRewards(events, response, judge));
    const row = { ...kept, ...toVerdictFields(verdict), ...(steps && { step_rewards: steps }) };
    const { reward } = before;
    const hadOne = typeof reward === "number" && before["failure_kind"] === undefined;
    const change = hadOne ? { change: { before: reward, after: verdict["reward"] as number } } : {};
    return { row, failed: false, ...change };
  } catch (thrown) {
    // Other errors concern the whole command and would affect every row.
    if (isHoldfastError(thrown) && thrown.code === "verify_failed") return failed(kept, "verify", thrown.message);
    if (isHoldfastError(thrown) && thrown.code === "invalid_task") return failed(kept, "task", thrown.message);
    throw thrown;
  }
}

/** Verifies every version that changed the state. The verifier sees only the output up to that version. */
async function stepRewards(events: NumberedEvent[], response: Json | undefined, judge: Judge): Promise<Json[]> {
  const rewards: Json[] = [];
  const said = outputBy(events, response);
  for (const version of changedVersions(events)) {
    try {
      const { reward = null } = await judge(said(version), version);
      rewards.push({ version, reward });
    } catch (thrown) {
      if (!isHoldfastError(thrown) || thrown.code !== "verify_failed") throw thrown;
      rewards.push({ version, reward: null, failure_reason: messageOf(thrown) });
    }
  }
  return rewards;
}

/** Returns the versions that changed the state in the last episode, starting at its seed or its fork. */
function changedVersions(events: NumberedEvent[]): number[] {
  const from = (events.findLast(({ type }) => type === "session.seeded") ?? findFork(events))?.version ?? Infinity;
  const changes = events.filter(({ version, delta }) => version >= from && delta !== undefined && delta.length > 0);
  return changes.map(({ version }) => version);
}

function outputBy(events: NumberedEvent[], response: Json | undefined): (version: number) => Json | undefined {
  const { output } = toFields(response);
  if (!Array.isArray(output)) return () => response;
  const find = createCallFinder(events);
  const tools = new Map<Json | undefined, string>();
  /** Calls made before the fork are in the parent's log. */
  let isInherited = findFork(events) !== undefined;
  const ends = output.flatMap((item, at) => {
    const { type, call_id: call, name } = toFields(item);
    if (type === "function_call" && typeof name === "string") tools.set(call, name);
    const event = type === "function_call_output" ? find(call, tools.get(call) ?? "") : undefined;
    if (event) isInherited = false;
    const version = event?.version ?? (isInherited && type === "function_call_output" ? 1 : undefined);
    return version === undefined ? [] : [{ version, end: at + 1 }];
  });
  return (version) => {
    const end = ends.reduce((most, known) => (known.version <= version ? Math.max(most, known.end) : most), 0);
    return { ...toFields(response), output: output.slice(0, end) };
  };
}

/** Removes the old verdict. In older rows its fields are next to the reward, where they may hide fields of the task. */
function withoutVerdict(row: TaskRow, events: NumberedEvent[]): TaskRow {
  const event = events.findLast(({ type }) => type === "session.verified");
  const isOlder = row["metrics"] === undefined && event?.type === "session.verified";
  const gone = new Set(["reward", "step_rewards", "metrics", ...(isOlder ? Object.keys(event.verdict) : [])]);
  return Object.fromEntries(Object.entries(row).filter(([name]) => !gone.has(name)));
}

/**
 * Returns the row's task. The current schema may require more fields than the schema at the seed. Fields hidden by a
 * verdict come from the seed.
 */
function taskNow({ environment }: Sessions, row: TaskRow, events: NumberedEvent[]): TaskRow | undefined {
  if (!environment.task) return undefined;
  const seeded = events.findLast(({ type }) => type === "session.seeded");
  const own = Object.entries(pickTask(row)).filter(([name]) => !isOutcomeField(name));
  const first = seeded?.type === "session.seeded" ? seeded.task : findFork(events)?.parent?.task;
  return { ...toFields(first ?? undefined), ...Object.fromEntries(own) };
}

/** Returns a forked session's opening event. */
function findFork([first]: NumberedEvent[]) {
  return first?.type === "session.opened" && first.parent ? first : undefined;
}

function failed(row: TaskRow, kind: string, reason: string): Reverified {
  return { row: { ...row, reward: null, failure_kind: kind, failure_reason: reason, mask_sample: true }, failed: true };
}

function assertSame(environment: string, [first]: NumberedEvent[], session: string): void {
  const whose = first?.type === "session.opened" ? first.environment : "another kind";
  if (whose === environment) return;
  throw invalidOption(
    `session ${session} belongs to ${whose}, not to ${environment}; choose another --environment or --store`,
  );
}
