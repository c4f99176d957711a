// runProtocol(): POST /run runs a whole rollout in one request, as NeMo Gym's collectors expect. It takes a row and
// returns the verdict.
import { HoldfastError, messageOf } from "../core/errors.ts";
import { copyJson, type Json } from "../core/json.ts";
import { notAllowed, type Protocol, type Reply } from "../core/protocol.ts";
import { newSeed, randomStream } from "../core/random.ts";
import { failedRollout, readRandomSeed, type Play, type Played, type Rollout, type TaskRow } from "../core/rollout.ts";
import { failureFields, withFlatMetrics } from "../rollout/row-fields.ts";

export interface RunProtocolOptions {
  play: Play;
  /** Prepares a row for a rollout. Throws when the row is invalid. */
  prepare(row: TaskRow): TaskRow | Promise<TaskRow>;
  /** Returns a new id for a conversation. */
  newSession(): string;
}

/**
 * Answers every rollout with 200, even a failed one, because any other status makes collectors end the whole
 * collection. They recognise a failed rollout by `_ng_failure_class`. A failed rollout has the reward 0 only because
 * collectors require a number; `mask_sample` marks this reward as invalid.
 *
 * If a row is sent twice, it runs twice, each time in a new session.
 *
 * @example
 * const protocol = runProtocol({ play, prepare, newSession: () => sessions.newSession() });
 * const { body } = await protocol.handle(request);
 */
export function runProtocol({ play, prepare, newSession }: RunProtocolOptions): Protocol {
  async function run(given: TaskRow, signal: AbortSignal): Promise<TaskRow> {
    const session = newSession();
    let rollout: Rollout;
    try {
      rollout = toRollout(await prepare(given), session);
    } catch (thrown) {
      return answerTo(given, failedRollout(session, "task", messageOf(thrown)));
    }
    return answerTo(rollout.row, await play(rollout, signal));
  }

  return {
    name: "run",
    async handle(request) {
      const [, rollout, path] = /^(?:\/ng-rollout\/([A-Za-z0-9][A-Za-z0-9._-]*))?(\/.*)$/s.exec(request.path) ?? [];
      if (path !== "/run") return undefined;
      if (request.method !== "POST") throw notAllowed(path, request.method, ["POST"]);
      const body = await run(parseRow(request.body), request.signal);
      const reply: Reply = { status: 200, body, about: { session: String(body["session_id"]) } };
      if (rollout !== undefined) reply.about = { ...reply.about, rollout };
      return reply;
    },
  };
}

function parseRow(body: unknown): TaskRow {
  const row = copyJson(body ?? null, "body", "drop");
  if (typeof row === "object" && row !== null && !Array.isArray(row)) return row;
  throw new HoldfastError("invalid_task", "the body must be a JSON object: one row of a data set");
}

function toRollout(row: TaskRow, session: string): Rollout {
  const index = (name: string): number | undefined => {
    const value = row[name];
    return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
  };
  const [task, repeat] = [index("_ng_task_index"), index("_ng_rollout_index") ?? 0];
  // All repeats of a task share the environment's random numbers.
  const random =
    readRandomSeed(row) ?? (task === undefined ? newSeed() : Math.floor(randomStream(task, 0)() * 0x100000000));
  return { task: task ?? 0, repeat, attempt: index("_ng_attempt_index") ?? 0, row, session, random };
}

function answerTo(row: TaskRow, played: Played): TaskRow {
  const { session } = played;
  const fields = withFlatMetrics(played.fields);
  const about: TaskRow = { session_id: session };
  if (played.outcome === "scored" && played.stopped !== undefined) about["stopped"] = played.stopped;
  if (played.outcome !== "failed") return { ...row, ...fields, ...about };
  return {
    // Required fields, for a row that lacks them or a rollout that ended early.
    responses_create_params: { input: [] },
    ...row,
    response: emptyResponse(row, session),
    ...fields,
    ...about,
    ...failureFields(played.failure),
  };
}

/** Builds the response for a rollout that has none. */
function emptyResponse({ responses_create_params: params }: TaskRow, session: string): Json {
  const { tools = [] } = Object(params) as { tools?: Json };
  return {
    id: `resp_${session}`,
    object: "response",
    created_at: Math.floor(Date.now() / 1000),
    model: "none",
    status: "failed",
    output: [],
    parallel_tool_calls: true,
    tool_choice: "auto",
    tools,
  };
}
