// A table of any length with sortable columns, keyboard navigation, and rows that unfold.
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useWidth } from "../../charts/use-width.ts";
import { VirtualList, type Place } from "../../parts/virtual-list.tsx";
import type { Sort } from "./sort.ts";
import "./grid.css";

export interface Column {
  name: string;
  label: string;
  /** A track of grid-template-columns. */
  width: string;
  isNumber?: boolean;
  /** The table width in pixels from which the column is shown. */
  from?: number;
  cell(index: number): ComponentChildren;
}

export interface Line {
  /** The target of Enter and of a click. */
  href?: string;
  /** Folds or unfolds the row instead of following a link. */
  toggle?: () => void;
  isOpen?: boolean;
  level?: 1 | 2;
}

export interface GridProps {
  label: string;
  columns: Column[];
  count: number;
  line(index: number): Line;
  sort: Sort | undefined;
  onSort(column: string): void;
  /** The reader's position, kept up to date. */
  place: { top: number; active: number };
  /** The table scrolls to the top when this changes. */
  subject: string;
  /** Whether rows unfold. */
  isTree?: boolean;
}

const height = 30;

export function Grid({ label, columns, count, line, sort, onSort, place, subject, isTree = false }: GridProps) {
  const id = useId();
  const [box, width] = useWidth();
  const [active, setActive] = useState(place.active);
  const list = (): HTMLElement | null | undefined => box.current?.querySelector<HTMLElement>(".virtual");
  const shown = columns.filter(({ from = 0 }) => width >= from);
  const last = useRef(subject);

  useLayoutEffect(() => {
    const element = list();
    if (element) element.scrollTop = place.top;
  }, []);
  useLayoutEffect(() => {
    if (last.current === subject) return;
    last.current = subject;
    move(0);
  }, [subject]);

  function move(to: number): void {
    const [next, element] = [Math.max(0, Math.min(count - 1, to)), list()];
    place.active = next;
    setActive(next);
    if (!element) return;
    // The sticky headings cover the top of the list.
    const room = element.clientHeight - height - 2;
    const [top, end] = [next * height, (next + 1) * height];
    if (top < element.scrollTop) element.scrollTop = top;
    else if (end > element.scrollTop + room) element.scrollTop = end - room;
  }

  function press(event: KeyboardEvent): void {
    if (event.target !== event.currentTarget || event.ctrlKey || event.altKey || event.metaKey || count === 0) return;
    const page = Math.max(1, Math.floor(((list()?.clientHeight ?? 0) - height) / height) - 1);
    const now = Math.min(active, count - 1);
    const { href, toggle, isOpen, level } = line(now);
    const open = (): void => (toggle ? toggle() : href === undefined ? undefined : void (location.hash = href));
    const actions: { [key: string]: (() => void) | undefined } = {
      ArrowDown: () => move(now + 1),
      ArrowUp: () => move(now - 1),
      PageDown: () => move(now + page),
      PageUp: () => move(now - page),
      Home: () => move(0),
      End: () => move(count - 1),
      Enter: open,
      " ": open,
      ArrowRight: toggle && (isOpen ? () => move(now + 1) : toggle),
      ArrowLeft: toggle ? (isOpen ? toggle : undefined) : level === 2 ? () => move(parentOf(now)) : undefined,
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  function parentOf(index: number): number {
    let at = index;
    while (at > 0 && line(at).level === 2) at--;
    return at;
  }

  const heads = (
    <div role="row" aria-rowindex={1} class="grid-row grid-heads">
      {shown.map(({ name, label, isNumber }) => {
        const way = sort?.column === name ? (sort.isDown ? "descending" : "ascending") : undefined;
        const arrow = (
          <span aria-hidden="true" class="grid-way">
            {way === undefined ? "" : way === "ascending" ? "▲" : "▼"}
          </span>
        );
        return (
          <div key={name} role="columnheader" aria-sort={way ?? "none"} class={isNumber ? "num" : undefined}>
            <button class="grid-sort" title={label} onClick={() => onSort(name)}>
              {isNumber && arrow}
              {label}
              {!isNumber && arrow}
            </button>
          </div>
        );
      })}
    </div>
  );

  const draw = (index: number, at: Place) => {
    const { href, toggle, isOpen, level } = line(index);
    const isActive = index === Math.min(active, count - 1);
    return (
      <div
        {...at}
        id={`${id}-${index}`}
        role="row"
        aria-rowindex={index + 2}
        aria-selected={isActive}
        {...(isTree && { "aria-level": level ?? 1, "aria-expanded": toggle && isOpen === true })}
        class={`grid-row ${toggle ? "grid-group" : ""} ${level === 2 ? "grid-inner" : ""}`}
        onClick={() => {
          place.active = index;
          setActive(index);
          toggle?.();
        }}
      >
        {shown.map(({ name, isNumber, cell }, column) => (
          <div key={name} role="gridcell" class={isNumber ? "num" : undefined}>
            {column > 0 ? (
              cell(index)
            ) : href === undefined ? (
              <>
                {toggle && <span aria-hidden="true" class={isOpen ? "grid-fold grid-unfolded" : "grid-fold"} />}
                {cell(index)}
              </>
            ) : (
              <a href={href} tabIndex={-1} class="grid-open">
                {cell(index)}
              </a>
            )}
          </div>
        ))}
      </div>
    );
  };

  return (
    <div class="grid-box" ref={box} style={{ "--columns": shown.map(({ width }) => width).join(" ") }}>
      <VirtualList
        count={count}
        height={height}
        heading={heads}
        attributes={{
          role: isTree ? "treegrid" : "grid",
          class: "grid",
          tabIndex: 0,
          "aria-label": label,
          "aria-rowcount": count + 1,
          "aria-colcount": shown.length,
          onKeyDown: press,
          ...(count > 0 && { "aria-activedescendant": `${id}-${Math.min(active, count - 1)}` }),
          onScroll: (event) => void (place.top = event.currentTarget.scrollTop),
        }}
      >
        {draw}
      </VirtualList>
      {count === 0 && <p class="notice grid-none">No row matches the filters.</p>}
    </div>
  );
}
