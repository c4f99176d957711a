// The frame of a chart: a title and a drawing that fills the available width.
import type { ComponentChildren } from "preact";
import { useWidth } from "./use-width.ts";
import "./charts.css";

export interface ChartProps {
  title: string;
  /** A short remark for the reader. */
  note?: string | undefined;
  /** The drawing; undefined if there is nothing to draw. */
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
