// The error that an author's code threw, with its stack. Models do not read it.
import { summarizeThrown, type Thrown } from "../../../../src/core/event.ts";
import { LongText } from "../../parts/long-text.tsx";

export function ThrownView({ thrown }: { thrown: Thrown }) {
  return (
    <div class="thrown">
      <LongText text={thrown.stack ?? summarizeThrown(thrown)} lines={20} />
      <p class="dim">The model sees only the tool's error message, not this stack trace.</p>
    </div>
  );
}
