// lastWords(): finds the text that an agent said last.
import type { EventOf, NumberedEvent } from "./event.ts";
import { answerText } from "./model.ts";

/** Returns the last text in the selected events; "" if there is none. */
export function lastWords(events: readonly NumberedEvent[], isSelected: (event: { path: string }) => boolean): string {
  const said = events.findLast(
    (event) => "items" in event && "path" in event && isSelected(event) && answerText(event.items ?? []) !== "",
  );
  return answerText((said as EventOf<"model.answered"> | undefined)?.items ?? []);
}

/** Returns the last text that is meant for the user. An agent used as a tool speaks only to its caller. */
export const finalText = (events: readonly NumberedEvent[]): string =>
  lastWords(events, ({ path }) => !path.includes("#"));
