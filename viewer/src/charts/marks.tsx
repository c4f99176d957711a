// The links of a chart. They share one tab stop; arrow keys move between them.
import type { ComponentChildren } from "preact";

export interface Mark {
  /** The full text for a screen reader and the tooltip. */
  name: string;
  href: string;
  /** Whether the filter includes the mark; undefined without a filter. */
  isShown?: boolean | undefined;
}

const steps: { [key: string]: number } = {
  ArrowLeft: -1,
  ArrowUp: -1,
  ArrowRight: 1,
  ArrowDown: 1,
  Home: -Infinity,
  End: Infinity,
};

function walk(event: KeyboardEvent): void {
  const step = steps[event.key];
  if (step === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
  const marks = [...(event.currentTarget as Element).querySelectorAll<SVGAElement>("a")];
  const now = marks.findIndex((mark) => mark === event.target);
  if (now < 0) return;
  event.preventDefault();
  marks[Math.max(0, Math.min(marks.length - 1, now + step))]?.focus();
}

export interface MarksProps {
  /** Describes the chart in words. */
  label: string;
  width: number;
  height: number;
  children: ComponentChildren;
}

export function Marks({ label, width, height, children }: MarksProps) {
  return (
    <svg class="chart-svg" role="group" aria-label={label} width={width} height={height} onKeyDown={walk}>
      {children}
    </svg>
  );
}

/** Wraps a clickable part of a chart. */
export function MarkLink({ mark, isFirst, children }: { mark: Mark; isFirst: boolean; children: ComponentChildren }) {
  const { name, href, isShown } = mark;
  return (
    <a
      class={isShown === false ? "chart-mark chart-pale" : "chart-mark"}
      href={href}
      aria-label={name}
      aria-current={isShown === true ? "true" : undefined}
      // Lower case: SVG ignores `tabIndex`.
      tabindex={isFirst ? 0 : -1}
    >
      <title>{name}</title>
      {children}
    </a>
  );
}
