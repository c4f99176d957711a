// Vertical bars above and below zero. Each links to the rows it counts.
import { number } from "../parts/format.ts";
import { Chart } from "./chart.tsx";
import { MarkLink, Marks, type Mark } from "./marks.tsx";
import { scale, ticks } from "./scale.ts";

export interface Bar extends Mark {
  value: number;
  /** The value of the selected rows, drawn over a pale bar of the whole value. */
  part?: number | undefined;
  /** Drawn below the bar if there is room. */
  label: string;
}

export interface BarsProps {
  title: string;
  note?: string | undefined;
  bars: Bar[];
  /** The range that the axis shows at least. */
  reach?: readonly [number, number];
  height?: number;
}

const [left, top, bottom] = [38, 6, 18];
const letter = 6.5;

export function Bars({ title, note, bars, reach = [0, 0], height = 150 }: BarsProps) {
  const low = bars.reduce((least, { value }) => Math.min(least, value), Math.min(0, reach[0]));
  const high = bars.reduce((most, { value }) => Math.max(most, value), Math.max(0, reach[1]));
  const y = scale([low, high], [height - bottom, top]);
  const longest = bars.reduce((most, { label }) => Math.max(most, label.length), 1);

  const draw = (width: number) => {
    const step = (width - left) / bars.length;
    const gap = step > 6 ? Math.min(4, step / 5) : step > 2 ? 0.5 : 0;
    const skip = Math.max(1, Math.ceil((longest * letter + 6) / step));
    return (
      <Marks label={`${title}${note === undefined ? "" : `, ${note}`}`} width={width} height={height}>
        <Axis values={ticks(low, high, 3)} place={y} width={width} />
        {bars.map((bar, at) => {
          const x = left + at * step;
          const rect = (value: number, name: string) => {
            const [from, to] = [y(Math.max(0, value)), y(Math.min(0, value))];
            // A small value stays visible.
            const tall = value === 0 ? 0 : Math.max(1.5, to - from);
            return (
              <rect
                class={value < 0 ? `${name} chart-below` : name}
                {...{ x: x + gap / 2, y: value < 0 ? from : to - tall, width: Math.max(0.5, step - gap) }}
                height={tall}
              />
            );
          };
          return (
            <MarkLink key={at} mark={bar} isFirst={at === 0}>
              <rect class="chart-hit" x={x} y={top} width={step} height={height - top - bottom} />
              {bar.part !== undefined && rect(bar.value, "chart-rest")}
              {rect(bar.part ?? bar.value, "chart-fill")}
            </MarkLink>
          );
        })}
        {bars.map(
          ({ label }, at) =>
            at % skip === 0 && (
              <text key={at} class="chart-text" x={left + (at + 0.5) * step} y={height - 4} text-anchor="middle">
                {label}
              </text>
            ),
        )}
      </Marks>
    );
  };
  return (
    <Chart title={title} note={note}>
      {bars.length > 0 ? draw : undefined}
    </Chart>
  );
}

export interface AxisProps {
  values: number[];
  place(value: number): number;
  width: number;
  shown?(value: number): string;
}

/** Draws faint horizontal lines with their numbers at the left. */
export function Axis({ values, place, width, shown = shortNumber }: AxisProps) {
  return (
    <g aria-hidden="true">
      {values.map((value) => (
        <g key={value}>
          <line class={value === 0 ? "chart-zero" : "chart-line"} {...{ x1: left, x2: width }} {...yOf(place(value))} />
          <text class="chart-text" x={left - 5} y={place(value) + 4} text-anchor="end">
            {shown(value)}
          </text>
        </g>
      ))}
    </g>
  );
}

/** Rounds to half a pixel, where a thin line is sharp. */
const yOf = (y: number): { y1: number; y2: number } => ({ y1: Math.round(y) + 0.5, y2: Math.round(y) + 0.5 });

/** Shortens a number to about five characters. */
export const shortNumber = (value: number): string =>
  Math.abs(value) >= 10_000
    ? new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value)
    : number(value);
