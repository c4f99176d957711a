// The episode of a row of a run.
import { toFields, type Json } from "../../../../src/core/json.ts";
import type { TaskRow } from "../../../../src/core/rollout.ts";
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { hasEstimatedTokens } from "../../../../src/rollout/row-fields.ts";
import { linkTo } from "../../address.ts";
import { createRowNames, rowName, rowPosition, type NamedRun } from "../../data/references.ts";
import type { Source } from "../../data/source.ts";
import { usePageContext } from "../../page-context.ts";
import { useLoaded } from "../../data/use-loaded.ts";
import { CopyButton } from "../../parts/copy-button.tsx";
import { number, showInvisible, seconds } from "../../parts/format.ts";
import { preview } from "../../parts/json-rows.ts";
import { LongText } from "../../parts/long-text.tsx";
import { Await, Failure, Nothing } from "../../parts/notice.tsx";
import { Episode } from "./episode.tsx";
import { keptRows } from "../runs/use-rows.ts";
import { EpisodeHeader, Reward, type Fact } from "./episode-header.tsx";
import { useLog } from "./use-log.ts";

export interface RowEpisodeProps {
  run: NamedRun;
  /** The name of the row in links. */
  name: string;
  parameters: URLSearchParams;
}

export function RowEpisode({ run, name, parameters }: RowEpisodeProps) {
  const { source } = usePageContext();
  const loaded = useLoaded(
    async (signal) => {
      const row = rowPosition(name) ?? (await findRow(source, run.run, name, signal));
      return { row, content: await source.row(run.run, row) };
    },
    [source, run.run, name],
  );
  return (
    <>
      {loaded.state === "failed" && (
        <p>
          <a href={linkTo(["runs", run.link])}>All rows of {run.name}</a>
        </p>
      )}
      <Await loaded={loaded}>{(found) => <Loaded {...{ run, parameters }} {...found} />}</Await>
    </>
  );
}

/** Finds the position of a named row, among the loaded rows or by reading the rows until it appears. */
async function findRow(source: Source, run: string, name: string, signal: AbortSignal): Promise<number> {
  const isIt = (row: RowSummary): boolean => rowName(row) === name;
  const known = keptRows(source, run)?.rows.find(isIt);
  if (known) return known.row;
  const [stop, found] = [new AbortController(), new Array<RowSummary>()];
  const take = (rows: RowSummary[]): void => {
    found.push(...rows.filter(isIt));
    if (found.length > 0) stop.abort();
  };
  await source.rows(run, take, AbortSignal.any([signal, stop.signal])).catch((thrown: unknown) => {
    if (found.length === 0) throw thrown;
  });
  const [first] = found;
  if (!first) throw new Error(`The run has no row ${name}.`);
  return first.row;
}

interface LoadedProps {
  run: NamedRun;
  row: number;
  content: TaskRow;
  parameters: URLSearchParams;
}

function Loaded({ run, row, parameters, content }: LoadedProps) {
  const { source, about } = usePageContext();
  const session = textIn(content["session_id"]);
  const environment = about.environments.find(({ name }) => name === run.environment);
  const live = source.isLive && environment && session !== null ? { at: environment.at, session } : undefined;
  const log = useLog(() => source.eventsOf(run.run, { row, session }), live, [source, run.run, row, session]);
  const [kind, stack] = [textIn(content["failure_kind"]), textIn(content["failure_stack"])];
  return (
    <>
      {log.failure !== undefined && <Failure message={log.failure} />}
      {log.events === undefined ? (
        <Nothing>Loading…</Nothing>
      ) : (
        <Episode
          {...{ parameters, session, environment, row: content, connection: log.connection }}
          events={log.events ?? none}
        >
          <EpisodeHeader title={titleOf(content, row)} facts={factsOf(content, environment?.name)}>
            <Neighbours run={run} row={row} />
          </EpisodeHeader>
          {kind !== null && (
            <div class="notice bad episode-failure" role="status">
              <b>Failed: {showInvisible(kind)}</b>
              <LongText text={textIn(content["failure_reason"]) ?? "No reason was recorded."} lines={6} />
              {stack !== null && <LongText text={stack} lines={8} />}
            </div>
          )}
        </Episode>
      )}
    </>
  );
}

/** Links to the rows before and after this row in the list that the reader came from. */
function Neighbours({ run, row }: { run: NamedRun; row: number }) {
  const { source } = usePageContext();
  const seen = keptRows(source, run.run);
  // Links back to the list with its filters.
  const list = linkTo(["runs", run.link], Object.fromEntries(new URLSearchParams(seen?.place.parameters)));
  const order = seen?.place.shown ?? new Uint32Array();
  const at = order.indexOf(row);
  const names = createRowNames();
  const link = (to: number | undefined, text: (name: string) => string) => {
    const other = to === undefined ? undefined : seen?.rows[to];
    if (!seen || !other) return null;
    return <a href={linkTo(["runs", run.link, names(seen.rows, other)])}>{text(shortName(other))}</a>;
  };
  return (
    <nav class="row" aria-label="Rows">
      {at > 0 && link(order[at - 1], (name) => `← ${name}`)}
      <a href={list}>
        {at < 0 ? "All rows" : `${number(at + 1)} of ${number(order.length)}`} in {run.name}
      </a>
      {at >= 0 && link(order[at + 1], (name) => `${name} →`)}
    </nav>
  );
}

const shortName = ({ row, task, repeat }: RowSummary): string =>
  task === null ? `row ${row}` : `task ${task}${repeat === null ? "" : `, repeat ${repeat}`}`;

/** One shared empty list, so that memoised values stay valid. */
const none: never[] = [];

function titleOf(content: TaskRow, row: number): string {
  const [task, repeat] = [content["_ng_task_index"], content["_ng_rollout_index"]];
  if (typeof task !== "number") return `Row ${row}`;
  const branch = textIn(content["branch"]);
  return [`Task ${task}`, typeof repeat === "number" ? `repeat ${repeat}` : "", branch ? `branch ${branch}` : ""]
    .filter((part) => part !== "")
    .join(", ");
}

function factsOf(content: TaskRow, environment: string | undefined): Fact[] {
  const isFailed = textIn(content["failure_kind"]) !== null;
  const { reward, seconds: took, _ng_attempt_index: attempt, mask_sample: isMasked } = content;
  const { model, usage } = toFields(content["response"]);
  const session = textIn(content["session_id"]);
  const parent = textIn(content["branch"]) === null ? null : textIn(content["parent"]);
  const tokens = toFields(usage)["total_tokens"];
  return [
    { name: "reward", value: !isFailed && typeof reward === "number" ? <Reward value={reward} /> : "–" },
    { name: "outcome", value: isFailed ? "failed" : isMasked === true ? <b class="warn">masked</b> : "scored" },
    ...Object.entries(toFields(content["metrics"])).map(([name, value]) => ({
      name,
      value: typeof value === "number" ? number(value) : preview(value, 60),
    })),
    { name: "stopped by", value: textIn(content["stopped"]) },
    { name: "attempt", value: typeof attempt === "number" && attempt > 0 ? attempt : null },
    { name: "model", value: textIn(model) },
    {
      name: "tokens",
      value:
        typeof tokens === "number" ? `${number(tokens)}${hasEstimatedTokens(content) ? " (estimated)" : ""}` : null,
    },
    { name: "time", value: typeof took === "number" ? seconds(took) : null },
    { name: "session", value: session && <SessionName {...{ session, environment }} /> },
    { name: "forked from", value: parent && <SessionName {...{ session: parent, environment }} /> },
  ];
}

const textIn = (value: Json | undefined): string | null => (typeof value === "string" && value !== "" ? value : null);

/** Links to the session if its environment is served here. */
function SessionName({ session, environment }: { session: string; environment: string | undefined }) {
  return (
    <>
      {environment === undefined ? (
        <code>{showInvisible(session)}</code>
      ) : (
        <a href={linkTo(["sessions", environment, session])}>
          <code>{showInvisible(session)}</code>
        </a>
      )}
      <CopyButton what="id" text={() => session} />
    </>
  );
}
