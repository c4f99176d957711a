// createViews(): views, which are values computed from a conversation's events. Between turns they are cached with the
// log. Missing views are rebuilt from the store. The open turn's events are kept only while it runs.
import type { Event, NumberedEvent } from "../core/event.ts";
import { freezeJson } from "../core/json.ts";
import { decode, isInForce } from "../core/session.ts";
import type { View } from "../core/conversation.ts";
import type { Logs } from "./log.ts";
import type { KeptView, OpenLog } from "./open-log.ts";

/** A turn's events, starting with its message, and their sizes in the log. */
export interface Steps {
  events: NumberedEvent[];
  bytes: number[];
}

export type Views = ReturnType<typeof createViews>;

export function createViews(logs: Logs) {
  /** Yields the events between two versions, without the events that a rewind undid. */
  async function* inForce(log: OpenLog, after: number, upTo: number) {
    for await (const page of logs.pages(log.id, after, upTo)) {
      for (const { version, body } of page) {
        if (!isInForce(log.session, version)) continue;
        yield { event: freezeJson({ ...decode<Event>(body, log.id), version }), bytes: body.length };
      }
    }
  }

  return {
    /** Reads the events of the open turn, if there is one. */
    async openSteps(log: OpenLog): Promise<Steps> {
      const steps: Steps = { events: [], bytes: [] };
      const turn = log.session.conversation?.turn;
      if (!turn) return steps;
      for await (const { event, bytes } of inForce(log, turn.began - 1, log.session.version)) {
        if (!("invocation" in event) || event.invocation !== turn.invocation) continue;
        steps.events.push(event);
        steps.bytes.push(bytes);
      }
      return steps;
    },
    /** Returns a view of all events that were not undone. `steps`: the newest events, already read. */
    async current<V extends View>(log: OpenLog, steps: Steps, key: string, create: () => V): Promise<V> {
      const kept = (log.views ??= { bytes: 0, byKey: new Map() });
      let known = kept.byKey.get(key);
      if (!known) {
        known = { view: create(), version: 0 };
        kept.byKey.set(key, known);
      }
      const before = (steps.events[0]?.version ?? log.session.version + 1) - 1;
      if (known.version < before) {
        for await (const { event, bytes } of inForce(log, known.version, before)) add(log, known, event, bytes);
        known.version = before;
      }
      addSteps(log, known, steps);
      return known.view as V;
    },
    /** Adds a finished turn's events to the views, so that the next turn does not have to read them. */
    catchUp(log: OpenLog, steps: Steps): void {
      const [first] = steps.events;
      if (!first) return;
      for (const known of log.views?.byKey.values() ?? []) {
        // An outdated view is updated when it is next requested.
        if (known.version >= first.version - 1) addSteps(log, known, steps);
      }
    },
  };
}

function addSteps(log: OpenLog, known: KeptView, { events, bytes }: Steps): void {
  const next = events.findLastIndex(({ version }) => version <= known.version) + 1;
  for (let at = next; at < events.length; at++) add(log, known, events[at] as NumberedEvent, bytes[at] ?? 0);
}

function add(log: OpenLog, known: KeptView, event: NumberedEvent, bytes: number): void {
  known.view.add(event);
  known.version = event.version;
  if (log.views && "items" in event) log.views.bytes += bytes;
}
