// The expected behaviour of the engine in its simplest form: a session is a list of states, and calls are functions.
import type { NumberedEvent } from "holdfast";
import { unlucky } from "./model-environment.ts";

export interface State {
  count: number;
  notes: string[];
  items: Record<string, { n: number }>;
}

/** A session at a version. `known` has the valid call ids, without those of a rewound line. */
export interface Moment {
  state: State;
  episode: number;
  start: number | undefined;
  /** The newest version that is not a verdict or the end: the subject of a verdict. */
  changed: number;
  known: ReadonlySet<string>;
}

export interface Call {
  tool: string;
  input: { by: unknown };
  call: string | undefined;
}

/** A code, or a result. */
export type Result = { code: string } | { output: unknown };

type Recorded = Call & { version: number; unseeded: boolean; result: Result | undefined; settled?: boolean };

/** The tools, on plain objects. `seen` is the count that a concurrent tool read. */
function perform({ tool, input }: Call, before: State, seen: number): [Result, State] {
  if (!["add", "note", "put", "say", "keep", "gather", "send"].includes(tool))
    return [{ code: "unknown_tool" }, before];
  const { by } = input;
  if (typeof by !== "number") return [{ code: "invalid_input" }, before];
  if (tool === "say") return [{ output: "x".repeat(9000) }, before];
  if (tool === "keep") return [{ code: "not_json" }, before];
  if (by === unlucky) return [{ code: "tool_failed" }, before];
  const { count, notes, items } = before;
  if (tool === "note") return [{ output: notes.length + 1 }, { ...before, notes: [...notes, `${count} ${by}`] }];
  if (tool === "put") {
    const key = by === 5 ? "__proto__" : `k${by}`;
    const entries = new Map(Object.entries(items));
    const n = entries.get(key)?.n;
    if (n === 2) entries.delete(key);
    else entries.set(key, { n: (n ?? 0) + 1 });
    return [{ output: entries.size }, { ...before, items: Object.fromEntries(entries) }];
  }
  const after = { ...before, count: count + by };
  if (tool === "gather") return [{ output: seen }, { ...after, notes: [...notes, "gathered"] }];
  return [{ output: tool === "send" ? "sent" : after.count }, after];
}

export class Line {
  /** By version; there is no version 0. */
  moments: Moment[] = [];
  calls = new Map<string, Recorded>();
  seeds = new Map<string, { start: number; version: number; episode: number }>();
  episodes = 0;
  ended = false;
  readonly strict: boolean;

  constructor(from: Moment | undefined, strict: boolean) {
    const empty = { state: { count: 0, notes: [], items: {} }, episode: 0, start: undefined };
    const first = { ...(from ?? empty), changed: 1, known: new Set<string>() };
    this.moments = [first, first];
    this.episodes = first.episode;
    this.strict = strict;
  }

  get version(): number {
    return this.moments.length - 1;
  }

  get now(): Moment {
    return this.moments[this.version] as Moment;
  }

  reward(version: number): number {
    const { state, start } = this.moments[version] as Moment;
    return start === undefined ? 0 : state.count - start;
  }

  /** The result of a call now: "fresh", "repeated", or the code of its refusal. */
  foresee({ tool, input, call }: Call): string {
    const key = `${this.now.episode} ${call}`;
    const before = call === undefined ? undefined : this.calls.get(key);
    if (before) {
      if (before.tool !== tool || before.input.by !== input.by) return "call_conflict";
      const answered = before.settled ? `${key} settled` : key;
      if (!this.now.known.has(answered)) return "call_undone";
      return "repeated";
    }
    if (this.ended) return "session_closed";
    return this.strict && this.now.episode === 0 ? "session_unseeded" : "fresh";
  }

  foreseeSeed(start: number, call: string | undefined): string {
    const before = call === undefined ? undefined : this.seeds.get(call);
    if (before && before.start !== start) return "call_conflict";
    if (before) return this.now.known.has(`seed ${call}`) ? "repeated" : "call_undone";
    return this.ended ? "session_closed" : "fresh";
  }

  /** Adds an event. Returns its expected result, if it has one. */
  append(event: NumberedEvent): unknown {
    const { now, version } = this;
    const next = { ...now };
    this.moments.push(next);
    if (event.type !== "session.verified" && event.type !== "session.closed") next.changed = version + 1;
    // A verdict changes nothing, and may follow the end.
    if (this.ended && event.type !== "session.verified") return "nothing: the session has ended";
    switch (event.type) {
      case "session.seeded": {
        const { start } = event.task as { start: number };
        Object.assign(next, { state: { count: start, notes: [], items: {} }, episode: ++this.episodes, start });
        if (event.call !== undefined) {
          this.seeds.set(event.call, { start, version: version + 1, episode: next.episode });
          next.known = new Set([...now.known, `seed ${event.call}`]);
        }
        return { episode: next.episode };
      }
      case "tool.called":
      case "tool.claimed": {
        const call = { tool: event.tool, input: event.input as Call["input"], call: event.call };
        const key = `${now.episode} ${event.call}`;
        if (this.calls.has(key) && event.call !== undefined) return "nothing: the call id was used before";
        const recorded: Recorded = { ...call, version: version + 1, unseeded: now.episode === 0, result: undefined };
        this.calls.set(event.call === undefined ? `at ${version + 1}` : key, recorded);
        if (event.call !== undefined) next.known = new Set([...now.known, key]);
        if (event.type === "tool.claimed") return { episode: now.episode };
        const seen = this.moments[event.run?.version ?? version] as Moment;
        [recorded.result, next.state] = perform(call, now.state, seen.state.count);
        return { episode: now.episode, result: recorded.result };
      }
      case "tool.settled": {
        const recorded = this.calls.get(`${event.episode} ${event.call}`) as Recorded;
        recorded.version = version + 1;
        recorded.settled = true;
        next.known = new Set([...now.known, `${event.episode} ${event.call} settled`]);
        if (event.episode === now.episode) [recorded.result, next.state] = perform(recorded, now.state, 0);
        else recorded.result = { code: "episode_ended" };
        return { result: recorded.result };
      }
      case "session.verified":
        return { reward: this.reward(event.judged) };
      case "session.rewound":
        Object.assign(next, this.moments[event.to], { changed: version + 1 });
        return { episode: next.episode };
      case "session.closed":
        this.ended = true;
        // An external call interrupted by the end of the session has an unknown outcome.
        for (const recorded of this.calls.values()) recorded.result ??= { code: "outcome_unknown" };
        return {};
      default:
        return "nothing";
    }
  }

  /** The call that was answered at a version. */
  answeredAt(version: number): Recorded | undefined {
    return [...this.calls.values()].find((recorded) => recorded.version === version);
  }
}
