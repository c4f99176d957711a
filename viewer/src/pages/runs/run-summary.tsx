// The metrics at the top of a run.
import type { ComponentChildren } from "preact";
import type { Interval } from "../../../../src/rollout/metrics/bootstrap.ts";
import { number, orDash, seconds } from "../../parts/format.ts";
import type { RunMetrics } from "./run-metrics.ts";

export function Metric({ name, children, note }: { name: string; children: ComponentChildren; note?: string }) {
  return (
    <div class="run-metric">
      <dt>{name}</dt>
      <dd>
        {children} {note !== undefined && <small class="dim">{note}</small>}
      </dd>
    </div>
  );
}

const percent = (value: number): string => `${number(value)}%`;

export const intervalNote = ({ low, high }: Interval): string => `${number(low)} to ${number(high)}`;

export function RunSummary({ metrics, interval }: { metrics: RunMetrics; interval: Interval | undefined }) {
  const { rows, failed, reward, tokens, isRate, best, tasks } = metrics;
  const each = (total: number): string => `${number(Math.round(total / rows))} each`;
  return (
    <dl class="card run-metrics">
      <Metric name="Rows">{number(rows)}</Metric>
      <Metric name="Tasks">{number(tasks.length)}</Metric>
      <Metric name="Mean reward" note={interval ? `95%: ${intervalNote(interval)}` : ""}>
        {orDash(reward)}
      </Metric>
      {isRate && <Metric name="pass@1">{orDash(best[0], percent)}</Metric>}
      <Metric name="Failures" note={failed > 0 ? `${number((100 * failed) / rows, 2)}%` : ""}>
        <span class={failed > 0 ? "bad" : ""}>{number(failed)}</span>
      </Metric>
      <Metric name="Tokens" note={tokens === null ? "" : each(tokens)}>
        {orDash(tokens)}
      </Metric>
      <Metric name="Time" note={metrics.seconds === null ? "" : `${seconds(metrics.seconds / rows)} each`}>
        {orDash(metrics.seconds, seconds)}
      </Metric>
    </dl>
  );
}
