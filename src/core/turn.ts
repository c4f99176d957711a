// Views: folds of a conversation for the loop of an agent.
import type { NumberedEvent } from "./event.ts";

/** A fold of a conversation. The engine keeps it between turns, and adds every event in force. */
export interface View {
  add(event: NumberedEvent): void;
}
