// A table of sessions of any length. Arrow keys move between rows.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { number } from "../../parts/format.ts";
import { VirtualList } from "../../parts/virtual-list.tsx";
import type { SessionRow } from "./session-list.ts";
import "./sessions.css";
import { relativeTime } from "./relative-time.ts";

export interface SessionTableProps {
  label: string;
  rows: SessionRow[];
  /** The time that relative times refer to. */
  now: number;
  link(row: SessionRow): string;
  /** The column after the id: what the session is about. */
  title: Cell;
  /** The result of an episode. */
  result?: Cell;
  last: Cell;
}

interface Cell {
  heading: string;
  cell(row: SessionRow): ComponentChildren;
}

const height = 30;

export function SessionTable({ label, rows, now, link, title, result, last }: SessionTableProps) {
  const element = useRef<HTMLDivElement>(null);
  const [chosen, setChosen] = useState<string>();
  useScrollAnchor(element, rows);
  const at = rows.findIndex(({ session }) => session === chosen);
  const [wanted, setWanted] = useState<number>();
  // A distant row is rendered only after it is scrolled into view.
  const focus = (made: HTMLElement | null): void => {
    if (!made) return;
    made.focus();
    setWanted(undefined);
  };
  const goTo = (index: number): void => {
    const next = Math.max(0, Math.min(index, rows.length - 1));
    setChosen(rows[next]?.session);
    setWanted(next);
  };
  const steps: { [key: string]: number } = {
    ArrowDown: 1,
    ArrowUp: -1,
    PageDown: 10,
    PageUp: -10,
    Home: -1e9,
    End: 1e9,
  };
  return (
    <div ref={element} class={result ? "sessions-table sessions-results" : "sessions-table"}>
      <VirtualList
        count={rows.length}
        height={height}
        shown={wanted}
        attributes={{
          role: "table",
          "aria-label": label,
          "aria-rowcount": rows.length + 1,
          tabIndex: 0,
          onKeyDown: (event) => {
            const step = steps[event.key];
            if (step === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
            event.preventDefault();
            goTo(at === -1 ? 0 : at + step);
          },
          onFocusIn: (event) => {
            const row = (event.target as HTMLElement).closest<HTMLElement>("[data-index]");
            if (row) setChosen(rows[Number(row.dataset["index"])]?.session);
          },
        }}
        heading={
          <div role="row" aria-rowindex={1} class="sessions-row sessions-heading">
            {["Session", title.heading, "Version", "Opened", "Last event", "Status", result?.heading, last.heading].map(
              (heading) =>
                heading !== undefined && (
                  <span key={heading} role="columnheader" class={heading === "Version" ? "num" : ""}>
                    {heading}
                  </span>
                ),
            )}
          </div>
        }
      >
        {(index, { style, ...place }) => {
          const row = rows[index] as SessionRow;
          return (
            <div {...place} style={style} key={row.session} role="row" aria-rowindex={index + 2} class="sessions-row">
              <span role="cell">
                <a href={link(row)} title={row.session} class="mono" ref={index === wanted ? focus : null}>
                  {row.session}
                </a>
              </span>
              <span role="cell">{title.cell(row)}</span>
              <span role="cell" class="num">
                {number(row.version)}
              </span>
              <Time at={row.opened} now={now} />
              <Time at={row.touched} now={now} />
              <span role="cell">{row.ended === undefined ? "open" : <span class="dim">ended: {row.ended}</span>}</span>
              {result && <span role="cell">{result.cell(row)}</span>}
              <span role="cell">{last.cell(row)}</span>
            </div>
          );
        }}
      </VirtualList>
    </div>
  );
}

function Time({ at, now }: { at: number; now: number }) {
  return (
    <span role="cell" title={new Date(at).toLocaleString("en-GB")}>
      {relativeTime(at, now)}
    </span>
  );
}

/** Keeps the visible rows in place when new sessions appear above them. */
function useScrollAnchor(element: { current: HTMLDivElement | null }, rows: SessionRow[]): void {
  const first = useRef<string>(undefined);
  useLayoutEffect(() => {
    const added = rows.findIndex(({ session }) => session === first.current);
    const scrolling = element.current?.querySelector(".virtual");
    if (scrolling && added > 0 && scrolling.scrollTop > 0) scrolling.scrollTop += added * height;
    first.current = rows[0]?.session;
  }, [rows]);
}
