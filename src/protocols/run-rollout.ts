// POST /run: a whole rollout in one request, as collectors of NeMo Gym ask an agent for it. A row in, the verdict out.
import { HoldfastError, messageOf } from "../core/errors.ts";
import { copyJson, type Json } from "../core/json.ts";
import type { Protocol, Reply, Request } from "../core/protocol.ts";
import { newSeed, randomStream } from "../core/random.ts";
import type { Play, Played, Rollout, TaskRow } from "../core/rollout.ts";

export interface RunProtocolOptions {
  play: Play;
  /** Makes a row ready to be played. Throws what is wrong with it. */
  prepare(row: TaskRow): TaskRow | Promise<TaskRow>;
  /** A new id for a conversation. */
  newSession(): string;
}

/**
 * Every rollout is answered with 200, also one that failed: collectors end the whole collection at any other status. Such
 * an answer has `_ng_failure_class`, by which they keep it apart. It has a reward of 0 only because they want a number
 * there, and `mask_sample` says that it is none.
 *
 * A row that is sent again is played again, in a session of its own.
 *
 * @example
 * const protocol = runProtocol({ play, prepare, newSession: () => sessions.newSession() });
 * const { body } = await protocol.handle(request);
 */
export function runProtocol({ play, prepare, newSession }: RunProtocolOptions): Protocol {
  async function run(given: TaskRow, signal: AbortSignal): Promise<TaskRow> {
    const session = newSession();
    let row: TaskRow;
    try {
      row = await prepare(given);
    } catch (thrown) {
      const failure = { kind: "task" as const, reason: messageOf(thrown) };
      return answerTo(given, { fields: {}, session, failure });
    }
    return answerTo(row, await play(rolloutOf(row, session), signal));
  }

  return {
    name: "run",
    async handle(request) {
      const [, rollout, path] = /^(?:\/ng-rollout\/([A-Za-z0-9][A-Za-z0-9._-]*))?(\/.*)$/s.exec(request.path) ?? [];
      if (path !== "/run") return undefined;
      assertPost(request);
      const body = await run(rowOf(request.body), request.signal);
      const reply: Reply = { status: 200, body, about: { session: String(body["session_id"]) } };
      if (rollout !== undefined) reply.about = { ...reply.about, rollout };
      return reply;
    },
  };
}

function assertPost({ method }: Request): void {
  if (method === "POST") return;
  throw new HoldfastError("method_not_allowed", "/run is served by POST", { detail: { allow: ["POST"] } });
}

function rowOf(body: unknown): TaskRow {
  const row = copyJson(body ?? null, "body", "drop");
  if (typeof row === "object" && row !== null && !Array.isArray(row)) return row;
  throw new HoldfastError("invalid_task", "the body must be a JSON object: a row of a data set");
}

function rolloutOf(row: TaskRow, session: string): Rollout {
  const index = (name: string): number | undefined => {
    const value = row[name];
    return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
  };
  const [task, repeat] = [index("_ng_task_index"), index("_ng_rollout_index") ?? 0];
  // The same luck whenever the same rollout is asked for.
  const random = task === undefined ? newSeed() : Math.floor(randomStream(task, repeat)() * 0x100000000);
  return { task: task ?? 0, repeat, attempt: index("_ng_attempt_index") ?? 0, row, session, random };
}

function answerTo(row: TaskRow, { fields, session, stopped, failure }: Played): TaskRow {
  const about = { session_id: session, ...(stopped !== undefined && { stopped }) };
  if (!failure) return { ...row, ...fields, ...about };
  const { kind, reason } = failure;
  return {
    // What must be there, whatever the row has and however little was played.
    responses_create_params: { input: [] },
    ...row,
    response: emptyResponse(row, session),
    ...fields,
    ...about,
    reward: 0,
    mask_sample: true,
    failure_kind: kind,
    failure_reason: reason,
    _ng_failure_class: kind,
    _ng_failure_reason: reason,
    // What is wrong with a row is wrong with it the next time.
    ...(kind === "task" && { _ng_failure_terminal: true }),
  };
}

/** What is read as a response where there is none. */
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
