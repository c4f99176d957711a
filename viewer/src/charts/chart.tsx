// The frame of a chart: its title, and a drawing as wide as there is room.
import type { ComponentChildren } from "preact";
import { useWidth } from "./use-width.ts";
import "./charts.css";

export interface ChartProps {
  title: string;
  /** What else a reader needs to know, in few words. */
  note?: string | undefined;
  /** The drawing; undefined where there is nothing to draw. */
  children: ((width: number) => ComponentChildren) | undefined;
}

export function Chart({ title, note, children }: ChartProps) {
  const [box, width] = useWidth();
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span> {note !== undefined && <span class="dim">{note}</span>}
      </figcaption>
      <div class="chart-box" ref={box}>
        {children ? width > 0 && children(width) : <p class="dim chart-none">Nothing to show.</p>}
      </div>
    </figure>
  );
}
