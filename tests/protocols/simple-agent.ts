// A third-party agent: written from the facts about NeMo Gym's simple_agent, without our code. It seeds without a cookie.
// It posts any tool name that the model gives, keeps only the cookies of the last reply, and accepts any status of a tool.
type Row = Record<string, unknown>;

export interface ToolCall {
  /** Used as the path, unchecked. */
  name: string;
  arguments?: unknown;
}

export interface Ran {
  /** The answer to /verify, as the collector gets it. */
  row: Row;
  /** What the model read, in order. */
  outputs: string[];
  statuses: number[];
}

/** Plays a row. `model` gets the last output and returns the next call, until it returns undefined. */
export async function simpleAgent(
  url: string,
  row: Row,
  model: (output: string | undefined, turn: number) => ToolCall | undefined,
): Promise<Ran> {
  let cookies: string[] = [];
  const post = async (path: string, body: unknown): Promise<{ status: number; text: string }> => {
    const reply = await fetch(`${url}/${path}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "*/*",
        ...(cookies.length > 0 && { cookie: cookies.join("; ") }),
      },
      body: JSON.stringify(body),
    });
    // Replaced, not merged.
    cookies = reply.headers.getSetCookie().map((line) => line.split(";")[0] as string);
    return { status: reply.status, text: await reply.text() };
  };
  const raising = async (path: string, body: unknown): Promise<Row> => {
    const { status, text } = await post(path, body);
    if (status < 200 || status > 299) throw new Error(`the collection is over: ${path} ${status} ${text}`);
    return JSON.parse(text) as Row;
  };

  await raising("seed_session", row);
  const [outputs, statuses, items]: [string[], number[], Row[]] = [[], [], []];
  for (let turn = 0; ; turn++) {
    const call = model(outputs.at(-1), turn);
    if (!call) break;
    const { status, text } = await post(call.name, call.arguments ?? {});
    outputs.push(text);
    statuses.push(status);
    items.push({
      type: "function_call",
      call_id: `c${turn}`,
      name: call.name,
      arguments: JSON.stringify(call.arguments),
    });
    items.push({ type: "function_call_output", call_id: `c${turn}`, output: text });
  }
  const response = {
    id: "resp_1",
    object: "response",
    created_at: 0,
    model: "m",
    output: items,
    parallel_tool_calls: true,
    tool_choice: "auto",
    tools: [],
  };
  const verified = await raising("verify", { ...row, response });
  for (const name of ["responses_create_params", "response"]) {
    if (typeof verified[name] !== "object") throw new Error(`the collection is over: the verdict has no ${name}`);
  }
  if (typeof verified["reward"] !== "number") throw new Error("the collection is over: the verdict has no reward");
  return { row: verified, outputs, statuses };
}
