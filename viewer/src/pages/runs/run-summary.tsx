// The metrics at the top of a run.
import type { ComponentChildren } from "preact";
import type { Interval } from "../../../../src/rollout/metrics/bootstrap.ts";
import { date, number, orDash, percent, seconds } from "../../parts/format.ts";
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

export const intervalNote = ({ low, high }: Interval): string => `${number(low)} to ${number(high)}`;

export interface RunSummaryProps {
  /** The metrics of the shown rows. */
  metrics: RunMetrics;
  /** The number of all rows. */
  all: number;
  interval: Interval | undefined;
}

export function RunSummary({ metrics, all, interval }: RunSummaryProps) {
  const { rows, masked, failed, reward, tokens, tasks } = metrics;
  const per = (total: number, shown: (value: number) => string): string =>
    `${shown(total / Math.max(1, rows))} per rollout`;
  return (
    <dl class="card run-metrics">
      <Metric name="Rollouts" note={rows < all ? `of ${number(all)}` : ""}>
        {number(rows)}
      </Metric>
      <Metric name="Tasks">{number(tasks.length)}</Metric>
      <Metric name="Mean reward" note={interval ? `95%: ${intervalNote(interval)}` : ""}>
        {orDash(reward)}
      </Metric>
      <Success metrics={metrics} />
      {masked > 0 && <Metric name="Masked">{number(masked)}</Metric>}
      <Metric name="Failures" note={failed > 0 ? percent((100 * failed) / rows) : ""}>
        <span class={failed > 0 ? "bad" : ""}>{number(failed)}</span>
      </Metric>
      <Metric
        name={metrics.isEstimate ? "Tokens (estimated)" : "Tokens"}
        note={tokens === null ? "" : per(tokens, (value) => number(Math.round(value)))}
      >
        {orDash(tokens)}
      </Metric>
      <Metric name="Date">{orDash(metrics.began, date)}</Metric>
      <Metric name="Wall time">{orDash(metrics.wallSeconds, seconds)}</Metric>
      <Metric name="Episode time" note={metrics.seconds === null ? "" : `sum; ${per(metrics.seconds, seconds)}`}>
        {orDash(metrics.seconds, seconds)}
      </Metric>
      {metrics.metricNames.slice(0, mostMeans).map((name) => (
        <Metric key={name} name={`Mean ${name}`}>
          {orDash(metrics.metricMeans.get(name))}
        </Metric>
      ))}
    </dl>
  );
}

const mostMeans = 4;

/** A success rate needs rewards of 0 and 1. For other rewards, the best of k is shown. */
function Success({ metrics: { isRate, best } }: { metrics: RunMetrics }) {
  if (isRate) return <Metric name="pass@1">{orDash(best[0], percent)}</Metric>;
  const k = best.length;
  return k > 1 ? <Metric name={`best@${k}`}>{orDash(best[k - 1])}</Metric> : null;
}
