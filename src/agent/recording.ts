// createRecording(): the events of one recorded invocation, for a replay. It puts new events in the recorded order,
// compares them, and supplies recorded results.
import type { Agent } from "../core/agent.ts";
import type { Entered, NewAgentEvent } from "../core/agent-sessions.ts";
import { prefixed, splitDelta, type AgentState } from "../core/shared-state.ts";
import type { Delta } from "../core/delta.ts";
import { HoldfastError } from "../core/errors.ts";
import type { AgentEvent, EventOf } from "../core/event.ts";
import { firstDifference, type Json } from "../core/json.ts";
import { toText, type FunctionCallOutput, type ModelResponse } from "../core/model.ts";
import { withoutLease } from "../session/entered.ts";
import { comparableFields, differentChange, inWords, named, type Difference } from "./difference.ts";
import type { Place, Result, World } from "./world.ts";

export type RecordedEvent = AgentEvent & { version: number };

export interface RecordingOptions {
  events: RecordedEvent[];
  agent: Agent;
  /** The session's random seed, and the times of its events. */
  seed: number;
  at(version: number): number;
  /** Replaces this run's ids in a string with the recorded ids. */
  withRecordedIds(text: string): string;
}

export type Recording = ReturnType<typeof createRecording>;

/** Errors that depend on timing or on a crash, not only on the code. They are taken from the recording. */
const fromOutside = new Set<string>(["tool_timeout", "outcome_unknown"]);

/** Milliseconds that an event from parallel agents waits for an event that was recorded before it. */
const sideBySideTimeout = 60_000;

export function createRecording({ events: all, agent, seed, at, withRecordedIds }: RecordingOptions) {
  const events = all.filter(({ type }) => !type.startsWith("turn."));
  const leases = all.filter(({ type }) => type.startsWith("turn."));
  const isCut = !events.some((event) => event.type === "agent.ended" && event.last);
  const known = namesIn(agent);
  let next = 0;
  let difference: Difference | undefined;
  let waiting: (() => void)[] = [];
  /** The paths of agents that have failed since the run started. */
  let failed = new Set<string>();
  let isStopped = false;

  /** Returns whether the next event belongs to a failed agent, which means that a later run wrote it. */
  const isNextElsewhere = (): boolean => {
    const head = events[next];
    return head !== undefined && failed.has(readPath(head) ?? "");
  };

  /** Returns the next recorded event of a path. */
  const upcoming = (path: string | undefined): RecordedEvent | undefined =>
    events.slice(next).find((event) => readPath(event) === path);

  function wake(): void {
    const woken = waiting;
    waiting = [];
    for (const resolve of woken) resolve();
  }

  function differ(found: Omit<Difference, "same">): HoldfastError {
    difference ??= { same: false, ...found };
    wake();
    return over();
  }

  function differAt(recorded: RecordedEvent | undefined, actual: NewAgentEvent | undefined, why: string) {
    const version = recorded?.version ?? (events.at(-1)?.version ?? 0) + 1;
    return differ({ version, expected: recorded, actual, message: `event ${version}: ${why}` });
  }

  /** Waits until all events recorded before this one have been replayed. */
  async function waitForTurn(event: NewAgentEvent): Promise<void> {
    for (;;) {
      if (difference || isStopped) throw over();
      const head = events[next];
      if (!head) {
        if (isCut) throw over();
        throw differAt(undefined, event, `${named(event)} was not recorded: the recording ends before it`);
      }
      if (readPath(head) === readPath(event)) return;
      if (isNextElsewhere()) {
        // The recorded run ended while parallel agents were running: a later run wrote the next event.
        isStopped = true;
        wake();
        throw over();
      }
      const mayCome = isCut || upcoming(readPath(event)) !== undefined;
      if (!mayCome || !areSideBySide(head, event) || !("agent" in head && known.has(head.agent))) {
        throw differAt(head, event, `the recording has ${named(head)}, but the replay has ${named(event)}`);
      }
      const before = next;
      const timer = setTimeout(() => {
        if (next === before)
          differAt(head, undefined, `the recording has ${named(head)}, but the replay does not produce it`);
      }, sideBySideTimeout);
      await new Promise<void>((resolve) => waiting.push(resolve));
      clearTimeout(timer);
    }
  }

  /** Throws if an event differs from the recorded one. */
  function compare(event: NewAgentEvent, delta: Delta, state: AgentState): void {
    const head = events[next] as RecordedEvent;
    const { version } = head;
    const shape = JSON.parse(withRecordedIds(JSON.stringify(comparableFields(event)))) as Json;
    if (head.type !== event.type) {
      throw differ({
        version,
        expected: comparableFields(head),
        actual: shape,
        message: `event ${version}: the recording has ${named(head)}, but the replay has ${named(event)}`,
      });
    }
    const found = firstDifference(comparableFields(head), shape) ?? differenceFrom(head, delta, state);
    if (!found) return;
    const [expected, actual] = found.values;
    throw differ({ version, expected, actual, message: `event ${version} (${named(head)}): ${inWords(found)}` });
  }

  /** Compares a change of the state with the recorded one. */
  function differenceFrom(head: RecordedEvent, delta: Delta, state: AgentState) {
    const { session: own, user, app } = splitDelta(JSON.parse(withRecordedIds(JSON.stringify(delta))) as Delta);
    const now = [...own, ...prefixed("user", user), ...prefixed("app", app)];
    return differentChange(state as Json, [...(head.delta ?? []), ...(head.shared ?? [])], now);
  }

  /** Commits the lease events that come next, so that versions stay as recorded. Random numbers depend on versions. */
  async function repeatLeases(entered: Entered): Promise<void> {
    const upTo = events[next]?.version ?? Infinity;
    const repeating: Promise<unknown>[] = [];
    while (leases[0] && leases[0].version < upTo) {
      const { version: _, ...event } = leases.shift() as RecordedEvent;
      repeating.push(entered.commit(withoutLease(event) as NewAgentEvent, () => ({ delta: [] })));
    }
    await Promise.allSettled(repeating);
  }

  /** Returns the recorded result for a call that is not made again; undefined if the call must be made. */
  function resultOf(
    place: Place,
    call: string,
    isExternal: boolean,
  ): { output: Json; error?: HoldfastError } | undefined {
    const found = upcoming(place.path);
    if (found?.type === "tools.answered") {
      const failed = found.failed?.find((one) => one.call === call);
      if (!isExternal && !(failed && fromOutside.has(failed.code))) return undefined;
      if (failed) return { output: null, error: new HoldfastError(failed.code, failed.message) };
      const item = found.items.find((one) => (one as FunctionCallOutput).call_id === call) as FunctionCallOutput;
      return { output: toText(item?.output ?? "") };
    }
    if (!isExternal) return undefined;
    if (found?.type === "agent.failed" && found.step === "tools") throw toError(found);
    // The run was interrupted before there were results, so this result is never compared.
    if (!found && isCut) return { output: null };
    throw over();
  }

  const world: World = {
    seed: () => seed,
    at: ({ version }) => at(version),
    async ask(place) {
      const found = upcoming(place.path);
      if (found?.type === "model.answered") {
        const { items, usage, response, failure, raw } = found;
        if (failure) throw new HoldfastError(failure.code, failure.message);
        const last = { ...response, output: items, ...(usage && { usage }) };
        return structuredClone(raw ?? last) as unknown as ModelResponse;
      }
      if (found?.type === "agent.failed" && found.step === "model") throw toError(found);
      if (!found && isCut) throw over();
      const was = found ? `the recording has ${named(found)}` : "the recording ends here";
      throw differAt(found ?? events[next], undefined, `${was}, but the agent ${place.agent} calls its model again`);
    },
    async amend({ path }, asked, live) {
      const found = upcoming(path);
      const isWhole = found?.type === "model.answered" && (found.failure !== undefined || found.raw !== undefined);
      if (isWhole) return live(asked);
      // The log has only the answer after `afterModel`. The callback still runs, and its value is ignored.
      await live(structuredClone(asked));
      return asked;
    },
    call(place, call, index, isExternal, live) {
      const recorded = resultOf(place, call.call_id, isExternal);
      if (!recorded) return live();
      const end = async (): Promise<Result> => ({ call, ...recorded, isTaken: true });
      return { index, work: Promise.resolve(), begin: async () => undefined, end };
    },
    effects({ path }, results, made) {
      if (!results.some(({ isTaken }) => isTaken)) return made;
      // Keeps the new changes of `temp:` keys, because the log does not contain them.
      const { temp } = splitDelta(made.delta);
      const found = upcoming(path);
      if (found?.type !== "tools.answered") return { delta: temp };
      const { delta = [], shared = [], transfer, escalate } = found;
      return {
        delta: [...structuredClone([...delta, ...shared]), ...temp],
        ...(transfer !== undefined && { transfer }),
        ...(escalate && { escalate }),
      };
    },
    isLate({ path }: Place) {
      const found = upcoming(path);
      return found?.type === "agent.ended" && found.outcome === "seconds";
    },
  };

  return {
    world,
    get difference() {
      return difference;
    },
    /** Called before each run. */
    begin(): void {
      failed = new Set();
      isStopped = false;
    },
    /** Whether the recorded run stopped before the next event, and a later run continued it. */
    get isStopped() {
      return isStopped || isNextElsewhere();
    },
    /** The number of events replayed so far. */
    get position() {
      return next;
    },
    get isDone() {
      return next >= events.length;
    },
    /** The next event to replay. */
    get head() {
      return events[next];
    },
    /** Returns a session that commits only recorded events. */
    guard(entered: Entered): Entered {
      const commit: Entered["commit"] = async (event, change) => {
        await waitForTurn(event);
        const committed = await entered.commit(event, (state, others) => {
          const made = change(state, others);
          compare({ ...event, ...made.fields }, made.delta, state);
          return made;
        });
        next++;
        // Waits, because a run that leaves the session drops the commits that have not begun.
        await repeatLeases(entered);
        if (event.type === "agent.failed") failed.add(event.path);
        wake();
        return committed;
      };
      void repeatLeases(entered);
      return Object.assign(Object.create(entered) as Entered, { commit });
    },
    /** Reports that a recorded event was not produced again. */
    ended(why: string): Difference {
      const head = events[next] as RecordedEvent;
      differAt(head, undefined, `the recording has ${named(head)}, but ${why}`);
      return difference as Difference;
    },
  };
}

/** Creates an error that ends a run at any step: a run that has lost its turn does not continue. */
const over = (): HoldfastError => new HoldfastError("turn_lost", "the replay ends here");

const toError = ({ error }: EventOf<"agent.failed">): HoldfastError => new HoldfastError(error.code, error.message);

const readPath = (event: RecordedEvent | NewAgentEvent): string | undefined =>
  "path" in event ? event.path : undefined;

interface Placed {
  type: string;
  path?: string;
  branch?: string;
}

/** Returns whether two events belong to parallel agents, either in different branches or as tools in one answer. */
function areSideBySide(a: Placed, b: Placed): boolean {
  const [x, y] = [`${a.branch ?? ""}/`, `${b.branch ?? ""}/`];
  const isOneLine = a.branch === undefined || b.branch === undefined || x.startsWith(y) || y.startsWith(x);
  if (!isOneLine) return true;
  const [calls, others] = [a, b].map(({ path = "" }) => path.split("#")) as [string[], string[]];
  const at = calls.findIndex((part, index) => part !== others[index]);
  const readCall = (part = ""): string => part.split("/")[0] as string;
  return at > 0 && others[at] !== undefined && readCall(calls[at]) !== readCall(others[at]);
}

/** Returns the names of all agents that can run, including agents used as tools. */
function namesIn(agent: Agent, names = new Set<string>()): Set<string> {
  names.add(agent.name);
  const tools = agent.kind === "model" ? [...agent.tools.values()].filter((made) => !("run" in made)) : [];
  for (const child of [...agent.agents, ...(tools as Agent[])]) if (!names.has(child.name)) namesIn(child, names);
  return names;
}
