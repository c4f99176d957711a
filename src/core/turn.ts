// What the loop of an agent is given of its conversation.
import type { NumberedEvent } from "./event.ts";

/** A fold of the events of a conversation that the engine keeps between turns and feeds with every event in force. */
export interface View {
  add(event: NumberedEvent): void;
}
