// The metrics at the top of a run.
import type { ComponentChildren } from "preact";
import type { Interval } from "../../../../src/rollout/metrics/bootstrap.ts";
import { number, orDash, seconds } from "../../parts/format.ts";
import type { RunFigures as Figures } from "./figures.ts";

export function Figure({ name, children, note }: { name: string; children: ComponentChildren; note?: string }) {
  return (
    <div class="run-figure">
      <dt>{name}</dt>
      <dd>
        {children} {note !== undefined && <small class="dim">{note}</small>}
      </dd>
    </div>
  );
}

export const intervalNote = ({ low, high }: Interval): string => `${number(low)} to ${number(high)}`;

export function RunFigures({ figures, interval }: { figures: Figures; interval: Interval | undefined }) {
  const { rows, failed, reward, tokens, passAny, tasks } = figures;
  const each = (total: number): string => `${number(Math.round(total / rows))} each`;
  return (
    <dl class="card run-figures">
      <Figure name="Rows">{number(rows)}</Figure>
      <Figure name="Tasks">{number(tasks.length)}</Figure>
      <Figure name="Mean reward" note={interval ? `95%: ${intervalNote(interval)}` : ""}>
        {orDash(reward)}
      </Figure>
      <Figure name="pass@1">{orDash(passAny[0])}</Figure>
      <Figure name="Failures" note={failed > 0 ? `${number((100 * failed) / rows, 2)}%` : ""}>
        <span class={failed > 0 ? "bad" : ""}>{number(failed)}</span>
      </Figure>
      <Figure name="Tokens" note={tokens === null ? "" : each(tokens)}>
        {orDash(tokens)}
      </Figure>
      <Figure name="Time" note={figures.seconds === null ? "" : `${seconds(figures.seconds / rows)} each`}>
        {orDash(figures.seconds, seconds)}
      </Figure>
    </dl>
  );
}
