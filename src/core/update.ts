// Updates: changes to one key, given as a function of its value. They can run again on a newer state.
import type { Draft } from "./draft.ts";
import { copyJson, equalJson, type Json } from "./json.ts";

export interface Update {
  key: string;
  change(value: unknown): unknown;
}

type State = Record<string, unknown>;

/** Changes a key. A function that returns nothing may change the value in place. */
export function applyUpdate(state: unknown, { key, change }: Update): void {
  const value = change((state as State)[key]);
  if (value instanceof Promise) throw new TypeError("update takes a function that is not async");
  if (value !== undefined) (state as State)[key] = value;
}

export type Updates = ReturnType<typeof createUpdates>;

export function createUpdates(draft: Draft<unknown>) {
  const updates: Update[] = [];
  /** The value of each key after its last update; undefined if the key was assigned before its first update. */
  const last = new Map<string, Json | undefined>();
  const readValue = (key: string): Json => copyJson((draft.state as State)[key] ?? null, "state", "refuse", `/${key}`);
  return {
    /** Applies an update immediately. */
    add(update: Update): void {
      const { key } = update;
      const isMixed = last.has(key) ? last.get(key) === undefined : draft.isChanged(key);
      applyUpdate(draft.state, update);
      updates.push(update);
      last.set(key, isMixed ? undefined : readValue(key));
    },
    /** Returns, in order, the updates of keys without other changes. */
    list: (): Update[] => updates.filter(({ key }) => equalJson(last.get(key), readValue(key))),
  };
}
