// Lines over a whole number such as k. The chart has no links, so it is one image with a text alternative.
import { number } from "../parts/format.ts";
import { Axis } from "./bars.tsx";
import { Chart } from "./chart.tsx";
import { scale, ticks } from "./scale.ts";

export interface Curve {
  name: string;
  /** One value for each x = 1, 2, 3 …; undefined if it is missing. */
  values: (number | undefined)[];
}

const [left, right, top, bottom, height] = [38, 8, 8, 18, 150];
const mostSpoken = 5;

export interface CurvesProps {
  title: string;
  note?: string;
  curves: Curve[];
  /** The scale reaches at least this value. */
  top?: number;
  /** The x of the first value. Default 1. */
  first?: number;
  /** Formats a value. */
  shown?(value: number): string;
}

export function Curves({ title, note, curves, top: least = 1, first = 1, shown = number }: CurvesProps) {
  const known = curves.flatMap(({ values }) => values.filter((value) => value !== undefined));
  const last = curves.reduce((most, { values }) => Math.max(most, first + values.length - 1), first);
  const low = known.reduce((a, b) => Math.min(a, b), 0);
  const high = known.reduce((a, b) => Math.max(a, b), least);
  const y = scale([low, high], [height - bottom, top]);

  const draw = (width: number) => {
    const x = scale([first, last], [left + 6, width - right]);
    return (
      <svg class="chart-svg" role="img" aria-label={spoken(title, curves, first, shown)} width={width} height={height}>
        <Axis values={ticks(low, high, 3)} place={y} width={width} shown={shown} />
        {curves.map(({ name, values }, at) => {
          const points = values.flatMap((value, k) => (value === undefined ? [] : [[x(first + k), y(value)] as const]));
          return (
            <g key={name} class={`chart-curve chart-curve-${at % 4}`}>
              <polyline points={points.map((point) => point.join()).join(" ")} />
              {points.length <= 20 && points.map(([cx, cy]) => <circle key={cx} {...{ cx, cy, r: 2.5 }} />)}
            </g>
          );
        })}
        {wholeTicks(first, last).map((k) => (
          <text key={k} class="chart-text" x={x(k)} y={height - 4} text-anchor="middle">
            {k}
          </text>
        ))}
      </svg>
    );
  };
  return (
    <Chart title={title} note={note}>
      {known.length > 0 ? draw : undefined}
    </Chart>
  );
}

function wholeTicks(first: number, last: number): number[] {
  return [...new Set([first, ...ticks(first, last, 5).filter((k) => Number.isInteger(k) && k >= first)])];
}

function spoken(title: string, curves: Curve[], first: number, text: (value: number) => string): string {
  const parts = curves.map(({ name, values }) => {
    const step = Math.max(1, Math.ceil(values.length / mostSpoken));
    const shown = values.flatMap((value, at) =>
      value !== undefined && (at % step === 0 || at === values.length - 1) ? [`${text(value)} at ${first + at}`] : [],
    );
    return `${name}: ${shown.join(", ")}`;
  });
  return `${title}. ${parts.join(". ")}`;
}
