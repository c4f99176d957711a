// One task in both runs: its prompt, its rows, and two episodes side by side.
import { useMemo } from "preact/hooks";
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { linkTo, setParameters } from "../../address.ts";
import { rowName, type NamedRun } from "../../data/references.ts";
import { useLoaded } from "../../data/use-loaded.ts";
import { usePageContext } from "../../page-context.ts";
import { orDash, short } from "../../parts/format.ts";
import { Await } from "../../parts/notice.tsx";
import { buildSteps } from "../episode/steps.ts";
import { Transcript } from "../episode/transcript.tsx";
import { taskOf } from "../runs/filter.ts";
import { sortRows } from "../runs/sort.ts";

export interface TaskComparisonProps {
  runs: [NamedRun, NamedRun];
  rows: [RowSummary[], RowSummary[]];
  task: number;
  parameters: URLSearchParams;
  promptOf(task: number): string;
}

/** The parameters that select an episode of each run. */
const sides = ["left", "right"] as const;

export function TaskComparison({ runs, rows, task, parameters, promptOf }: TaskComparisonProps) {
  return (
    <section class="card compare-task" aria-label={`Task ${task}`}>
      <div class="row">
        <h2>Task {task}</h2>
        <span class="dim compare-text">{short(promptOf(task), 200)}</span>
        <button
          class="quiet"
          onClick={() => setParameters({ task: undefined, left: undefined, right: undefined }, true)}
        >
          Close
        </button>
      </div>
      <div class="compare-sides">
        {sides.map((side, at) => (
          <Side
            key={side}
            side={side}
            run={runs[at] as NamedRun}
            rows={rows[at] as RowSummary[]}
            task={task}
            chosen={parameters.get(side)}
          />
        ))}
      </div>
    </section>
  );
}

interface SideProps {
  side: (typeof sides)[number];
  run: NamedRun;
  rows: RowSummary[];
  task: number;
  /** The position of the shown row, as text. */
  chosen: string | null;
}

function Side({ side, run, rows, task, chosen }: SideProps) {
  const found = useMemo(() => {
    const ofTask = rows.filter((row) => taskOf(row) === task);
    return Array.from(sortRows(ofTask, undefined), (at) => ofTask[at] as RowSummary);
  }, [rows, task]);
  const shown = found.find(({ row }) => String(row) === chosen) ?? found[0];
  return (
    <div class="compare-side">
      <div class="row">
        <h3>
          <a href={linkTo(["runs", run.link], { task })}>{run.name}</a>
        </h3>
        {shown ? (
          <>
            <label>
              <span class="unseen">Episode of {run.name}</span>
              <select
                value={String(shown.row)}
                onChange={({ currentTarget }) => setParameters({ [side]: currentTarget.value }, true)}
              >
                {found.map((row) => (
                  <option key={row.row} value={String(row.row)}>
                    {labelOf(row)}
                  </option>
                ))}
              </select>
            </label>
            <a href={linkTo(["runs", run.link, rowName(shown)])}>Open the episode</a>
          </>
        ) : (
          <span class="dim">This run has no rows for this task.</span>
        )}
      </div>
      {shown && <Said run={run} row={shown.row} />}
    </div>
  );
}

function labelOf({ row, repeat, branch, reward, outcome, kind }: RowSummary): string {
  const name = [repeat === null ? `row ${row}` : `repeat ${repeat}`, branch === null ? "" : `branch ${branch}`];
  const results = { failed: `failed: ${kind ?? "unknown"}`, masked: "masked", scored: `reward ${orDash(reward)}` };
  return `${name.filter((part) => part !== "").join(", ")} (${results[outcome]})`;
}

function Said({ run, row }: { run: NamedRun; row: number }) {
  const { source } = usePageContext();
  const loaded = useLoaded(() => source.row(run.run, row), [source, run.run, row]);
  return (
    <Await loaded={loaded}>
      {(content) => (
        <Transcript
          steps={buildSteps(content, [])}
          environment={undefined}
          version={undefined}
          onVersion={() => undefined}
          isFollowing={false}
        />
      )}
    </Await>
  );
}
