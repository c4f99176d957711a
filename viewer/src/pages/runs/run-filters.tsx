// The filter fields of a run. Each field is a parameter of the address.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { setParameters } from "../../address.ts";
import { number, short } from "../../parts/format.ts";
import type { RunMetrics } from "./run-metrics.ts";
import { filterNames } from "./filter.ts";
import type { Search } from "./use-search.ts";
import { rangeText, readRange } from "./range.ts";

export interface RunFiltersProps {
  parameters: URLSearchParams;
  metrics: RunMetrics;
  /** The number of shown rows, and of all rows loaded so far. */
  count: number;
  shown: number;
  isDone: boolean;
  search: Search;
}

/** Filters set by a chart or a link. They have no field, so each is a badge with a button that clears it. */
const badges = { task: "task", mean: "task mean", tokens: "tokens", reason: "failure:" } as const;

export function RunFilters({ parameters, metrics, count, shown, isDone, search }: RunFiltersProps) {
  const set = (name: string, value: string | undefined): void => setParameters({ [name]: value }, true);
  const isFiltered = filterNames.some((name) => parameters.has(name));
  const { masked, kinds, stops, tools } = metrics;
  return (
    <form
      class="row run-filters"
      role="search"
      aria-label="Filter the rows"
      onSubmit={(event) => event.preventDefault()}
    >
      <SearchField value={parameters.get("q") ?? ""} onChange={(q) => set("q", q)} />
      <RewardFields value={parameters.get("reward")} onChange={(reward) => set("reward", reward)} />
      <label>
        <span class="unseen">Outcome</span>
        <select value={parameters.get("kind") ?? ""} onChange={(event) => set("kind", event.currentTarget.value)}>
          <option value="">any outcome</option>
          <option value="scored">scored</option>
          {masked > 0 && <option value="masked">masked ({number(masked)})</option>}
          <option value="failed">failed</option>
          {kinds.map(({ kind, count: rows }) => (
            <option key={kind} value={`failed/${kind}`}>
              failed: {kind === "" ? "unknown" : kind} ({number(rows)})
            </option>
          ))}
          {stops.length > 0 && <option value="stopped">stopped by a limit</option>}
          {stops.map(({ kind, count: rows }) => (
            <option key={kind} value={`stopped/${kind}`}>
              stopped: {kind} ({number(rows)})
            </option>
          ))}
        </select>
      </label>
      <label>
        <span class="unseen">Tool</span>
        <select value={parameters.get("tool") ?? ""} onChange={(event) => set("tool", event.currentTarget.value)}>
          <option value="">any tool</option>
          {tools.map((tool) => (
            <option key={tool} value={tool}>
              {short(tool, 60)}
            </option>
          ))}
        </select>
      </label>
      <label class="run-check">
        <input
          type="checkbox"
          checked={parameters.get("group") === "task"}
          onChange={(event) => set("group", event.currentTarget.checked ? "task" : undefined)}
        />{" "}
        by task
      </label>
      {Object.entries(badges).map(
        ([name, label]) =>
          parameters.has(name) && (
            <button type="button" key={name} class="badge run-badge" onClick={() => set(name, undefined)}>
              {label} {short(spoken(parameters.get(name)), 40)} <span aria-hidden="true">×</span>
              <span class="unseen">: remove</span>
            </button>
          ),
      )}
      {/* Not a live region: while rows load, it changes many times a second. */}
      <output class="run-count num" aria-live={isDone ? "polite" : "off"}>
        {number(shown)} of {number(count)}
        {isDone ? (search.isDone ? "" : ", searching…") : " so far…"}
      </output>
      {search.failure !== undefined && <span class="bad">The search failed: {search.failure}</span>}
      <button
        type="button"
        disabled={!isFiltered}
        onClick={() => setParameters(Object.fromEntries(filterNames.map((name) => [name, undefined])), true)}
      >
        Clear filters
      </button>
    </form>
  );
}

function spoken(text: string | null): string {
  const range = readRange(text);
  if (!range) return text ?? "";
  const { from, to } = range;
  if (from === to) return String(from);
  if (!Number.isFinite(from)) return `to ${number(to)}`;
  return Number.isFinite(to) ? `${number(from)} to ${number(to)}` : `from ${number(from)}`;
}

/** Delay before typed text enters the address, because browsers limit address changes per second. */
const rest = 120;

function SearchField({ value, onChange }: { value: string; onChange(value: string): void }) {
  const [typed, setTyped] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useLayoutEffect(() => {
    // Keeps text typed in the meantime.
    if (timer.current === undefined) setTyped(value);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <label>
      <span class="unseen">Search messages, tool calls, tool outputs, failures and sessions</span>
      <input
        type="search"
        placeholder="Search full text"
        value={typed}
        onInput={({ currentTarget: { value } }) => {
          setTyped(value);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => {
            timer.current = undefined;
            onChange(value);
          }, rest);
        }}
      />
    </label>
  );
}

function RewardFields({ value, onChange }: { value: string | null; onChange(value: string | undefined): void }) {
  const range = readRange(value) ?? { from: -Infinity, to: Infinity, isOpen: false };
  const field = (end: "from" | "to", label: string) => (
    <label>
      <span class="unseen">{label}</span>
      <input
        class="run-reward num"
        type="number"
        step="any"
        placeholder={end === "from" ? "min" : "max"}
        value={Number.isFinite(range[end]) ? Number(range[end].toPrecision(4)) : ""}
        onChange={({ currentTarget: { valueAsNumber } }) => {
          const given = Number.isNaN(valueAsNumber) ? (end === "from" ? -Infinity : Infinity) : valueAsNumber;
          onChange(rangeText({ ...range, [end]: given, isOpen: end === "to" ? false : range.isOpen }));
        }}
      />
    </label>
  );
  return (
    <span class="run-rewards">
      <span aria-hidden="true">reward</span> {field("from", "Reward from")} <span aria-hidden="true">to</span>{" "}
      {field("to", "Reward to")}
    </span>
  );
}
