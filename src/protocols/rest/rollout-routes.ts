// The routes for rollout requests as data, and their handlers.
import type { RolloutRequests } from "../../rollout/requests.ts";
import type { RolloutRequest } from "../../rollout/requests/request.ts";
import type { Reply, Request } from "../../core/protocol.ts";
import { object, ok, takeFirst, type Handlers } from "../http/route.ts";
import type { Route } from "./routes.ts";

const whole = (minimum: number, description: string) => ({ type: "integer", minimum, description }) as const;
const number = (minimum: number, description: string) => ({ type: "number", minimum, description }) as const;
const text = (description: string) => ({ type: "string", description }) as const;

const after = { ...whole(0, "return the lines after this index"), default: 0 } as const;
const model = {
  ...object(
    {
      url: text("the address of its API, as in http://127.0.0.1:8000/v1; not needed for `scripted` and `random`"),
      name: text("its name at the server"),
      api: { type: "string", enum: ["chat", "openai", "anthropic"], description: "the API of the server" },
      temperature: number(0, "the temperature of every answer"),
      topP: number(0, "nucleus sampling of every answer"),
      maxTokens: whole(1, "maximum number of tokens of an answer"),
      request: { type: "object", description: "further fields of each request to the model" },
    },
    ["name"],
  ),
  description: "the model that plays",
} as const;
const limits = {
  ...object({
    steps: whole(1, "answers of the model"),
    tokens: whole(1, "tokens of all requests and answers"),
    seconds: number(0, "seconds"),
  }),
  description: "limits of an episode; one that reaches a limit is still verified",
} as const;
const branch = {
  type: "array",
  items: object({ ways: whole(2, "continuations"), step: whole(1, "the tool step") }, ["ways", "step"]),
  description: "fork every episode that reaches a tool step",
} as const;

const request = "/v1/rollouts/{id}";
const lines =
  "JSON lines: `begun`, then each `row` (or `group`) as it ends, then `end`; each has an `index`. `waiting` every 5 seconds of silence";

export const rolloutRoutes = {
  startRollouts: {
    method: "POST",
    path: "/v1/rollouts",
    summary: "Play rollouts, and stream their rows",
    description:
      "The rows are those of `holdfast collect`. A client that disconnects cancels nothing: the same body sent again, or " +
      "`GET /v1/rollouts/{id}`, continues the stream. An id that was used with another body is refused.",
    query: object({ after }),
    body: object(
      {
        request: text("the id of the request, chosen by the client; by default a new one"),
        tasks: {
          type: "array",
          items: { type: "object" },
          description: "the tasks; by default those of the environment",
        },
        split: text("the tasks file beside the environment: `train` is tasks_train.jsonl"),
        offset: whole(0, "skip this many tasks of the file"),
        limit: whole(1, "play only this many tasks of the file"),
        repeats: { ...whole(1, "rollouts of each task"), maximum: 100_000 },
        branch,
        model,
        limits,
        timeout: number(0, "seconds after which an episode fails"),
        concurrency: { ...whole(1, "episodes of this request at once"), maximum: 100_000 },
        attempts: { ...whole(1, "maximum number of attempts at a failing rollout"), maximum: 100 },
        seed: whole(0, "random seed of the environment"),
        randomSeed: {
          type: "string",
          enum: ["per-task", "per-rollout"],
          description: "what shares the environment's random numbers: all repeats of a task, or nothing",
        },
        system: text("system prompt, in place of the `instructions` of the tasks"),
        labels: { type: "object", description: "labels of every row, such as the version of the policy" },
        groups: { type: "boolean", description: "return the rows of a task together" },
        stepRewards: { type: "boolean", description: "add the reward at every version of the episode" },
      },
      ["model"],
    ),
    reply: "lines",
    stream: lines,
    example: { request: "iter-0001", repeats: 2, model: { name: "random" } },
    errors: ["call_conflict", "invalid_task", "cannot_load", "version_not_found"],
  },
  readRollouts: {
    method: "GET",
    path: request,
    summary: "Continue the stream of a request",
    description: "A request whose server died is continued.",
    query: object({ after }),
    reply: "lines",
    stream: lines,
    errors: ["not_found", "version_not_found"],
  },
  listRollouts: {
    method: "GET",
    path: "/v1/rollouts",
    summary: "List requests, in the order in which they began",
    query: object({
      after: text("only requests that began after this one"),
      limit: { ...whole(1, "maximum number of items"), maximum: 1000, default: 100 },
    }),
    reply: "RequestPage",
    errors: ["session_not_found"],
  },
  cancelRollouts: {
    method: "DELETE",
    path: request,
    summary: "Cancel a request, or delete an ended one",
    description: "Running episodes are stopped, and the stream ends. Rows that have ended stay readable.",
    query: object({
      delete: { type: "boolean", description: "delete the request and its rows, if it has ended" },
    }),
    reply: "Cancelled",
    errors: ["not_found"],
  },
} as const satisfies { [id: string]: Route };

export function rolloutHandlers(requests: RolloutRequests): Handlers<typeof rolloutRoutes> {
  const streamed = async (id: string, after: number, { signal }: Request): Promise<Reply> => ({
    status: 200,
    headers: { "content-type": "application/x-ndjson" },
    quiet: true,
    stream: withBreaks(await requests.lines(id, { after, signal })),
  });
  return {
    startRollouts: async ({ body, query, request }) => {
      const id = await requests.start(body as unknown as RolloutRequest);
      return { ...(await streamed(id, query.after, request)), about: { rollout: id } };
    },
    readRollouts: ({ id, query, request }) => streamed(id, query.after, request),
    listRollouts: async ({ query: { after, limit } }) => {
      const { items, more } = await takeFirst(requests.list(after), limit);
      return ok({ requests: items, next: more ? (items.at(-1)?.request ?? null) : null });
    },
    cancelRollouts: async ({ id, query }) => {
      if (query.delete) return ok({ cancelled: false, deleted: await requests.delete(id) });
      return ok({ cancelled: await requests.cancel(id) });
    },
  };
}

async function* withBreaks(lines: AsyncIterable<string>): AsyncGenerator<string, void, undefined> {
  for await (const line of lines) yield `${line}\n`;
}
