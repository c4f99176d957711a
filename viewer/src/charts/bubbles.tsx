// A scatter chart of two numbers: one bubble per grid cell, sized by its number of rows.
import { Axis, shortNumber } from "./bars.tsx";
import type { Cell, Cells } from "./cells.ts";
import { Chart } from "./chart.tsx";
import { MarkLink, Marks, type Mark } from "./marks.tsx";
import { scale, ticks } from "./scale.ts";

export interface BubblesProps {
  title: string;
  note?: string;
  cells: Cells | undefined;
  columns: number;
  lines: number;
  mark(cell: Cell): Mark;
}

const [left, right, top, bottom, height] = [38, 4, 6, 18, 150];

export function Bubbles({ title, note, cells, columns, lines, mark }: BubblesProps) {
  const draw = (width: number) => {
    if (!cells) return null;
    const most = cells.cells.reduce((most, { count }) => Math.max(most, count), 1);
    const largest = Math.min((width - left - right) / columns, (height - top - bottom) / lines) / 2;
    // Bubbles at the edges stay inside the drawing.
    const x = scale(cells.x, [left + largest, width - right - largest]);
    const y = scale(cells.y, [height - bottom - largest, top + largest]);
    return (
      <Marks label={title} width={width} height={height}>
        <Axis values={ticks(...cells.y, 3)} place={y} width={width} />
        {cells.cells.map((cell, at) => (
          <MarkLink key={`${cell.x[0]} ${cell.y[0]}`} mark={mark(cell)} isFirst={at === 0}>
            <rect
              class="chart-hit"
              {...{ x: x(cell.middle[0]) - largest, y: y(cell.middle[1]) - largest }}
              {...{ width: 2 * largest, height: 2 * largest }}
            />
            {cell.selected < cell.count && (
              <circle
                class="chart-rest"
                {...{ cx: x(cell.middle[0]), cy: y(cell.middle[1]) }}
                r={Math.max(1.2, Math.sqrt(cell.count / most) * largest)}
              />
            )}
            {cell.selected > 0 && (
              <circle
                class="chart-fill"
                {...{ cx: x(cell.middle[0]), cy: y(cell.middle[1]) }}
                r={Math.max(1.2, Math.sqrt(cell.selected / most) * largest)}
              />
            )}
          </MarkLink>
        ))}
        {ticks(...cells.x, width < 260 ? 2 : 4).map((value) => (
          <text
            key={value}
            class="chart-text"
            {...{ x: x(value), y: height - 4 }}
            text-anchor={anchor(x(value), width)}
          >
            {shortNumber(value)}
          </text>
        ))}
      </Marks>
    );
  };
  return (
    <Chart title={title} {...(note !== undefined && { note })}>
      {cells ? draw : undefined}
    </Chart>
  );
}

/** Keeps the last number of an axis inside the drawing. */
const anchor = (x: number, width: number): string => (x > width - 20 ? "end" : "middle");
