// checkedSave(): checks a saved session of any origin before its events are stored.
import { invalidOption, type HoldfastError } from "../core/errors.ts";
import { isEventOf } from "../core/event.ts";
import { copyJson } from "../core/json.ts";
import { faultInItems } from "../core/model.ts";
import type { SavedSession } from "../core/sessions.ts";

/** Copies a saved session, and checks that its events are those of such sessions. */
export function checkedSave(saved: SavedSession, kind: "episodes" | "conversations"): SavedSession {
  const { events, shared = {} } = Object(saved) as Partial<SavedSession>;
  if (!Array.isArray(events)) throw wrong("it has no events");
  if (typeof shared !== "object" || shared === null) throw wrong("its shared state is not an object");
  const copied = copyJson(saved, "the saved session", "drop") as unknown as SavedSession;
  for (const [at, event] of copied.events.entries()) {
    if (!isEventOf(kind, event.type) || (at === 0) !== (event.type === "session.opened")) {
      throw wrong(`event ${at + 1} has a wrong type`);
    }
    const fault = "items" in event && event.items !== undefined ? faultInItems(event.items) : undefined;
    if (fault) throw wrong(`the items of event ${at + 1} are invalid: ${fault}`);
  }
  const [opened] = copied.events;
  if (opened?.type !== "session.opened") throw wrong("it has no event that opens it");
  const { user } = copied;
  if (user !== undefined && opened.labels?.["user"] !== user) throw wrong("it belongs to another user");
  return copied;
}

function wrong(what: string): HoldfastError {
  return invalidOption(`this is not a saved session: ${what}`);
}
