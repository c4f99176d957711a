// The episode of a row of a run.
import type { Json } from "../../../../src/core/json.ts";
import type { TaskRow } from "../../../../src/core/rollout.ts";
import type { BundleCollection } from "../../../../src/rollout/collection-view.ts";
import { toFields } from "../../../../src/rollout/conversation.ts";
import { linkTo } from "../../address.ts";
import { usePageContext } from "../../page-context.ts";
import { useLoaded } from "../../data/use-loaded.ts";
import { CopyButton } from "../../parts/copy-button.tsx";
import { number, showInvisible, seconds } from "../../parts/format.ts";
import { LongText } from "../../parts/long-text.tsx";
import { Await, Failure, Nothing } from "../../parts/notice.tsx";
import { Episode } from "./episode.tsx";
import { keptRows } from "../runs/use-rows.ts";
import { EpisodeHeader, type Fact } from "./episode-header.tsx";
import { useLog } from "./use-log.ts";

export interface RowEpisodeProps {
  run: string;
  row: number;
  parameters: URLSearchParams;
}

export function RowEpisode(props: RowEpisodeProps) {
  const { source } = usePageContext();
  const loaded = useLoaded(() => source.row(props.run, props.row), [source, props.run, props.row]);
  return (
    <>
      {loaded.state === "failed" && (
        <p>
          <a href={linkTo(["runs", props.run])}>All rows of the run</a>
        </p>
      )}
      <Await loaded={loaded}>{(content) => <Loaded {...props} content={content} />}</Await>
    </>
  );
}

function Loaded({ run, row, parameters, content }: RowEpisodeProps & { content: TaskRow }) {
  const { source, about } = usePageContext();
  const session = textIn(content["session_id"]);
  const listed = about.runs.find((known) => known.run === run);
  const environment = about.environments.find(({ name }) => name === listed?.environment);
  const live = source.isLive && environment && session !== null ? { at: environment.at, session } : undefined;
  const log = useLog(() => source.eventsOf(run, { row, session }), live, [source, run, row, session]);
  const seen = keptRows(source, run);
  const rows = (listed as BundleCollection | undefined)?.rows ?? seen?.count;
  // Links back to the list with its filters.
  const list = linkTo(["runs", run], Object.fromEntries(new URLSearchParams(seen?.place.parameters)));
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
            <nav class="row" aria-label="Rows">
              {row > 0 && <a href={linkTo(["runs", run, row - 1])}>← row {row - 1}</a>}
              <a href={list}>rows of {listed?.name ?? "the run"}</a>
              {(rows === undefined || row + 1 < rows) && <a href={linkTo(["runs", run, row + 1])}>row {row + 1} →</a>}
            </nav>
          </EpisodeHeader>
        </Episode>
      )}
    </>
  );
}

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
  const kind = textIn(content["failure_kind"]);
  const { reward, seconds: took, _ng_attempt_index: attempt, mask_sample: isMasked } = content;
  const { model, usage } = toFields(content["response"]);
  const [session, reason] = [textIn(content["session_id"]), textIn(content["failure_reason"])];
  const parent = textIn(content["branch"]) === null ? null : textIn(content["parent"]);
  const tokens = toFields(usage)["total_tokens"];
  return [
    {
      name: "outcome",
      value:
        kind === null ? (
          <b class={isMasked === true ? "warn" : "good"}>{isMasked === true ? "masked" : "scored"}</b>
        ) : (
          <b class="bad">failed: {kind}</b>
        ),
    },
    { name: "reward", value: kind === null && typeof reward === "number" ? <b>{number(reward)}</b> : "–" },
    { name: "reason", value: kind !== null && reason !== null && <LongText text={reason} lines={3} /> },
    { name: "stopped by", value: textIn(content["stopped"]) },
    { name: "attempt", value: typeof attempt === "number" && attempt > 0 ? attempt : null },
    { name: "model", value: textIn(model) },
    { name: "tokens", value: typeof tokens === "number" ? number(tokens) : null },
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
