// A metric with a small line of its last minutes.

export interface SparklineProps {
  title: string;
  /** Newest last; null if unknown. */
  values: (number | null)[];
  shown(value: number): string;
  /** Whether any value above zero is bad. */
  isBad?: boolean;
  note?: string;
}

const [width, height] = [150, 36];
/** The width holds at least this many values, so that the first few do not fill it. */
const least = 6;

export function Sparkline({ title, values, shown, isBad = false, note }: SparklineProps) {
  const known = values.filter((value) => value !== null);
  const now = values.at(-1) ?? null;
  const high = known.reduce((a, b) => Math.max(a, b), 0);
  const said = known.length === 0 ? "unknown" : `now ${now === null ? "unknown" : shown(now)}, max ${shown(high)}`;
  return (
    <div class="card live-sparkline">
      <h2>{title}</h2>
      <p class={`live-now ${isBad && (now ?? 0) > 0 ? "bad" : ""}`}>{now === null ? "–" : shown(now)}</p>
      <svg role="img" aria-label={`${title}: ${said}`} viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none">
        {segments(values, high).map((points) => (
          <polyline key={points} points={points} class={isBad ? "bad" : ""} vector-effect="non-scaling-stroke" />
        ))}
      </svg>
      <p class="dim live-note">{note ?? (high > 0 ? `max ${shown(high)}` : "\u00a0")}</p>
    </div>
  );
}

/** The line segments, with a gap at each unknown value. The newest value is at the right edge. */
function segments(values: (number | null)[], high: number): string[] {
  const found: string[][] = [[]];
  const step = width / (Math.max(least, values.length) - 1);
  for (const [at, value] of values.entries()) {
    if (value === null) {
      found.push([]);
      continue;
    }
    const x = width - (values.length - 1 - at) * step;
    const y = height - 2 - (high > 0 ? (value / high) * (height - 4) : 0);
    found.at(-1)?.push(`${x.toFixed(1)},${y.toFixed(1)}`);
  }
  return found.filter((points) => points.length > 1).map((points) => points.join(" "));
}
