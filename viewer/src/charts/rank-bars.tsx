// Horizontal bars with names, largest first.
import { number, short } from "../parts/format.ts";
import { Chart } from "./chart.tsx";
import { MarkLink, Marks } from "./marks.tsx";
import type { Bar } from "./bars.tsx";

const line = 24;
/** The filter's list shows the rest. */
const mostShown = 6;

export function RankBars({ title, note, bars }: { title: string; note?: string | undefined; bars: Bar[] }) {
  const most = bars.reduce((most, { value }) => Math.max(most, value), 1);
  const shown = bars.slice(0, mostShown);
  const draw = (width: number) => {
    const names = Math.min(width * 0.45, 150);
    const room = width - names - 46;
    const lengthOf = ({ value }: Bar): number => Math.max(1.5, (value / most) * room);
    return (
      <Marks label={title} width={width} height={shown.length * line + 4}>
        {shown.map((bar, at) => (
          <MarkLink key={bar.label} mark={bar} isFirst={at === 0}>
            <rect class="chart-hit" x={0} y={at * line + 1} width={width} height={line - 2} />
            <rect
              {...{ class: "chart-fill chart-failed", x: names, y: at * line + 5, height: line - 10 }}
              width={lengthOf(bar)}
            />
          </MarkLink>
        ))}
        {/* The link's name has this text already. */}
        <g aria-hidden="true" class="chart-over">
          {shown.map((bar, at) => (
            <g key={bar.label}>
              <text class="chart-text" x={2} y={at * line + 16}>
                {short(bar.label, Math.max(4, Math.floor(names / 7)))}
              </text>
              <text class="chart-text" x={names + lengthOf(bar) + 5} y={at * line + 16}>
                {number(bar.value)}
              </text>
            </g>
          ))}
        </g>
      </Marks>
    );
  };
  const rest = bars.length > mostShown ? `and ${bars.length - mostShown} more kinds` : undefined;
  return (
    <Chart title={title} note={rest ?? note}>
      {bars.length > 0 ? draw : undefined}
    </Chart>
  );
}
