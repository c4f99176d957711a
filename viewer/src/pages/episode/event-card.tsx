// Describes an event: its kind, author and time, and its log lines.
import type { NumberedEvent } from "../../../../src/core/event.ts";
import type { Json } from "../../../../src/core/json.ts";
import { linkTo, readAddress } from "../../address.ts";
import { Fact } from "../../parts/fact.tsx";
import { clock, short } from "../../parts/format.ts";
import { preview } from "../../parts/json-rows.ts";
import { LongText } from "../../parts/long-text.tsx";
import { committedWith, titleOf } from "./event-kinds.ts";
import { ThrownView } from "./thrown-view.tsx";

export function EventCard({ event }: { event: NumberedEvent }) {
  const { at, parameters } = readAddress(location.hash);
  const here = linkTo(at, { ...Object.fromEntries(parameters), v: event.version });
  const log = "log" in event ? event.log : undefined;
  const logged = log?.flatMap((line) => (typeof line === "string" ? [line] : line.lines)) ?? [];
  const thrown = "thrown" in event && event.thrown ? [event.thrown].flat() : [];
  const outcome = "outcome" in event && typeof event.outcome === "object" ? event.outcome : undefined;
  return (
    <section class="event-card" aria-label="Event">
      <h3>
        <a href={here} title="A link to this version">
          Version {event.version}
        </a>{" "}
        <span class={outcome?.ok === false || event.type.endsWith(".failed") ? "bad" : ""}>
          {short(titleOf(event), 300)}
        </span>
      </h3>
      <dl class="event-facts">
        <Fact name="when">
          <time dateTime={new Date(event.at).toISOString()} title={new Date(event.at).toISOString()}>
            {clock(event.at)}
          </time>
        </Fact>
        {factsOf(event).map(([name, value]) => (
          <Fact key={name} name={name}>
            {typeof value === "string" ? short(value, 200) : preview(value, 200)}
          </Fact>
        ))}
        <Fact name="event">{event.type}</Fact>
      </dl>
      {outcome?.ok === false && (
        <div class="bad">
          <LongText text={outcome.error.message} lines={6} />
        </div>
      )}
      {thrown.map((one, at) => (
        <details key={at}>
          <summary>thrown in {short(one.place, 300)}</summary>
          <ThrownView thrown={one} />
        </details>
      ))}
      {logged.length > 0 && (
        <div class="event-log" aria-label="Tool log">
          <LongText text={logged.join("\n")} lines={6} />
        </div>
      )}
    </section>
  );
}

/** The fields of an event worth showing in addition to its title: ids as text, the rest as JSON. */
function factsOf(event: NumberedEvent): [string, Json][] {
  const fields = event as unknown as { [field: string]: Json };
  const names = ["agent", "path", "branch", "call", "calls", "invocation", "episode", "input", "usage", "reason"];
  const facts = names.flatMap((name): [string, Json][] =>
    fields[name] === undefined ? [] : [[name, fields[name] as Json]],
  );
  const stored = committedWith(event);
  if (stored !== undefined) facts.push(["state", stored]);
  if (event.type === "session.verified") facts.push(["verdict", event.verdict]);
  return facts;
}
