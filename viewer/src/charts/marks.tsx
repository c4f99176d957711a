// The links of a chart: one stop of the tab key for all of them, and arrows from one to the next.
import type { ComponentChildren } from "preact";

export interface Mark {
  /** All that it says, for a screen reader and for the mouse. */
  name: string;
  href: string;
  /** Whether it is part of what is shown below; undefined where everything is. */
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
  /** What the chart shows, in words. */
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

/** A part of a chart that can be clicked. */
export function MarkLink({ mark, isFirst, children }: { mark: Mark; isFirst: boolean; children: ComponentChildren }) {
  const { name, href, isShown } = mark;
  return (
    <a
      class={isShown === false ? "chart-mark chart-pale" : "chart-mark"}
      href={href}
      aria-label={name}
      aria-current={isShown === true ? "true" : undefined}
      // In small letters: in a drawing the other spelling is another attribute, which says nothing.
      tabindex={isFirst ? 0 : -1}
    >
      <title>{name}</title>
      {children}
    </a>
  );
}
