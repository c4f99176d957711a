// The versions of a session on a line: the kind of each event, and the shown version.
import { useMemo, useRef } from "preact/hooks";
import type { NumberedEvent } from "../../../../src/core/event.ts";
import { number } from "../../parts/format.ts";
import { lanes, lanesOf, nextIn, titleOf, type Lane } from "./event-kinds.ts";
import "./timeline.css";

export interface TimelineProps {
  /** The whole log so far, in order. A longer list with the same beginning is processed incrementally. */
  events: NumberedEvent[];
  /** The shown version. */
  version: number;
  onVersion(version: number): void;
}

export function Timeline({ events, version, onVersion }: TimelineProps) {
  const last = events.length;
  const shown = events[version - 1];
  const byLane = useMemo(() => versionsByLane(events), [events]);
  const go = (to: number): void => onVersion(Math.max(1, Math.min(last, to)));
  if (!shown) return null;
  const across = `${last < 2 ? 50 : ((version - 1) / (last - 1)) * 100}%`;
  return (
    <div class="timeline" role="group" aria-label="Versions" style={{ "--count": `${number(last).length * 2 + 4}ch` }}>
      <div class="timeline-slider">
        <button class="quiet" aria-label="Previous version" disabled={version <= 1} onClick={() => go(version - 1)}>
          ◀
        </button>
        <input
          type="range"
          aria-label="Version"
          aria-valuetext={`version ${version} of ${last}: ${titleOf(shown)}`}
          {...{ min: 1, max: last, step: 1, value: version }}
          onInput={(event) => go(Number(event.currentTarget.value))}
        />
        <button class="quiet" aria-label="Next version" disabled={version >= last} onClick={() => go(version + 1)}>
          ▶
        </button>
        <output class="num">
          {number(version)} <span class="dim">of {number(last)}</span>
        </output>
      </div>
      <div class="timeline-lanes">
        {[...byLane].map(([lane, versions]) => (
          <LaneRow key={lane} {...{ lane, versions, last, version, onVersion }} />
        ))}
        <div class="timeline-here" aria-hidden="true">
          <i style={{ left: across }} />
        </div>
      </div>
    </div>
  );
}

interface LaneProps {
  lane: Lane;
  versions: number[];
  last: number;
  version: number;
  onVersion(version: number): void;
}

function LaneRow({ lane, versions, last, version, onVersion }: LaneProps) {
  const strip = useRef<SVGSVGElement>(null);
  // One path for all marks, because a log of 10,000 events has as many.
  const path = useMemo(() => marksPath(versions, last), [versions, last]);
  const pick = (event: MouseEvent): void => {
    const { left, width } = (strip.current as SVGSVGElement).getBoundingClientRect();
    const wanted = last < 2 ? 1 : 1 + ((event.clientX - left) / width) * (last - 1);
    const nearest = versions.reduce((a, b) => (Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a));
    onVersion(nearest);
  };
  const isHere = versions.includes(version);
  return (
    <>
      <button
        class={`quiet timeline-lane ${isHere ? "here" : ""}`}
        title={`Go to the next ${lane}`}
        aria-label={`${lane}: ${versions.length}; go to the next one`}
        onClick={() => onVersion(nextIn(versions, version) ?? version)}
      >
        <span>{lane}</span> <span class="num dim">{number(versions.length)}</span>
      </button>
      <svg
        ref={strip}
        class={`timeline-strip lane-${lane.replace(" ", "-")}`}
        viewBox="0 0 1000 10"
        preserveAspectRatio="none"
        aria-hidden="true"
        onClick={pick}
      >
        <path d={path} vector-effect="non-scaling-stroke" />
      </svg>
    </>
  );
}

function versionsByLane(events: NumberedEvent[]): Map<Lane, number[]> {
  const found = new Map<Lane, number[]>(lanes.map((lane) => [lane, []]));
  for (const [at, event] of events.entries()) for (const lane of lanesOf(event)) found.get(lane)?.push(at + 1);
  return new Map([...found].filter(([, versions]) => versions.length > 0));
}

/** Draws overlapping marks once. */
function marksPath(versions: number[], last: number): string {
  const places = versions.map((version) => (last < 2 ? 500 : Math.round(((version - 1) / (last - 1)) * 1000)));
  return [...new Set(places)].map((x) => `M${x} 1V9`).join("");
}
