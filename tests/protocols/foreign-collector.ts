// A third-party collector: posts the rows of a data set to an agent's /run and sorts the results.
// Written from the protocol's facts without our code: any status but 200 ends the whole collection.
type Row = Record<string, unknown>;

export interface Gathered {
  /** The rows of the main file. */
  rows: Row[];
  /** The rows of the failures file. */
  failures: Row[];
  metrics: { agent_metrics: Row; key_metrics: Row; group_level_metrics: Row[] };
}

/** The required fields of a response, and the fields from which a trainer takes tokens. */
const needed = ["id", "created_at", "model", "object", "output", "parallel_tool_calls", "tool_choice", "tools"];

function assertReadable(row: Row): void {
  const response = row["response"] as Row | undefined;
  const missing = needed.filter((name) => response?.[name] === undefined);
  if (typeof row["responses_create_params"] !== "object") missing.push("responses_create_params");
  if (typeof row["reward"] !== "number") missing.push("reward");
  if (missing.length > 0) throw new Error(`not a verify response: ${missing.join(", ")} missing`);
}

async function post(url: string, body: unknown): Promise<Row> {
  // Cookies are neither sent nor kept.
  const reply = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "*/*" },
    body: JSON.stringify(body),
  });
  const text = await reply.text();
  if (reply.status !== 200) throw new Error(`the collection is over: ${reply.status} ${text}`);
  return JSON.parse(text) as Row;
}

/** Sends all rows at once, each `repeats` times. */
export async function gather(agent: string, tasks: Row[], repeats = 1): Promise<Gathered> {
  const inputs = tasks.flatMap((task, index) =>
    Array.from({ length: repeats }, (_, repeat) => ({ ...task, _ng_task_index: index, _ng_rollout_index: repeat })),
  );
  const results = await Promise.all(
    inputs.map(async (input) => {
      const result = await post(`${agent}/run`, input);
      assertReadable(result);
      const { _ng_task_index, _ng_rollout_index } = input;
      return { ...result, _ng_task_index, _ng_rollout_index } as Row;
    }),
  );
  const rows = results.filter((row) => !row["_ng_failure_class"]);
  const stripped = rows.map((row) => {
    const { responses_create_params: _, response, ...rest } = row;
    return { ...rest, response: { usage: (response as Row)["usage"] } };
  });
  const metrics = (await post(`${agent}/aggregate_metrics`, { verify_responses: stripped })) as Gathered["metrics"];
  return { rows, failures: results.filter((row) => row["_ng_failure_class"]), metrics };
}
