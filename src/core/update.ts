// Updates: changes of one key of a state by a function of its value. They can be made again, to another state.
import type { Draft } from "./draft.ts";
import { copyJson, equalJson, type Json } from "./json.ts";

export interface Update {
  key: string;
  change(value: unknown): unknown;
}

type State = Record<string, unknown>;

/** Changes a key. A function that returns nothing may have changed the value in place. */
export function applyUpdate(state: unknown, { key, change }: Update): void {
  const value = change((state as State)[key]);
  if (value instanceof Promise) throw new TypeError("update takes a function that is not async");
  if (value !== undefined) (state as State)[key] = value;
}

export interface Updates {
  /** Makes a change at once. */
  add(update: Update): void;
  /** The updates of keys that nothing else changed, in order. */
  list(): Update[];
}

/** The updates made to one draft. */
export function createUpdates(draft: Draft<unknown>): Updates {
  const updates: Update[] = [];
  /** The value of each key after its last update; undefined if it was assigned before the first. */
  const last = new Map<string, Json | undefined>();
  const valueOf = (key: string): Json => copyJson((draft.state as State)[key] ?? null, "state", "refuse", `/${key}`);
  return {
    add(update) {
      const { key } = update;
      const isMixed = last.has(key) ? last.get(key) === undefined : draft.isChanged(key);
      applyUpdate(draft.state, update);
      updates.push(update);
      last.set(key, isMixed ? undefined : valueOf(key));
    },
    list: () => updates.filter(({ key }) => equalJson(last.get(key), valueOf(key))),
  };
}
