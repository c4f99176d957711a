// The routes for rollout requests as data, and their handlers.
import { invalidOption } from "../../core/errors.ts";
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
      url: text(
        "the base URL of the model's API, as in http://127.0.0.1:8000/v1; not needed for `scripted` and `random`",
      ),
      name: text("the model's name on that server"),
      api: { type: "string", enum: ["chat", "openai", "anthropic"], description: "the API that the server implements" },
      temperature: number(0, "the sampling temperature"),
      topP: number(0, "top-p (nucleus sampling)"),
      maxTokens: whole(1, "maximum number of tokens per answer"),
      request: { type: "object", description: "extra fields for each model request" },
    },
    ["name"],
  ),
  description: "the model to run",
} as const;
const limits = {
  ...object({
    steps: whole(1, "maximum number of model answers"),
    tokens: whole(1, "maximum number of tokens in all requests and answers"),
    seconds: number(0, "maximum number of seconds"),
  }),
  description: "limits per episode; an episode that reaches a limit is still verified",
} as const;
const branch = {
  type: "array",
  items: object(
    { ways: whole(2, "the number of continuations"), step: whole(1, "the tool step after which the episode forks") },
    ["ways", "step"],
  ),
  description: "the points where episodes fork into several continuations",
} as const;

const request = "/v1/rollouts/{id}";
const lines =
  "JSON lines, each with an `index`: `begun`, then a `row` (or `group`) for each finished rollout, then `end`. After 5 seconds without a line, `waiting` is sent";

export const rolloutRoutes = {
  startRollouts: {
    method: "POST",
    path: "/v1/rollouts",
    summary: "Run rollouts, and stream their rows",
    description:
      "The rows have the format of `holdfast collect`. If the client disconnects, the rollouts keep running. Send the same body again, or use " +
      "`GET /v1/rollouts/{id}`, to continue the stream. An id that was used with a different body is refused.",
    query: object({ after }),
    body: object(
      {
        request: text("the request id, chosen by the client (default: a new id)"),
        tasks: {
          type: "array",
          items: { type: "object" },
          description: "the tasks (default: the environment's tasks file)",
        },
        split: text("which tasks file next to the environment to use: `train` means tasks_train.jsonl"),
        offset: whole(0, "skip this many tasks in the file"),
        limit: whole(1, "run only this many tasks from the file"),
        repeats: { ...whole(1, "number of rollouts per task"), maximum: 100_000 },
        branch,
        model,
        limits,
        timeout: number(0, "time limit per episode, in seconds"),
        concurrency: { ...whole(1, "number of concurrent episodes for this request"), maximum: 100_000 },
        attempts: { ...whole(1, "maximum number of attempts per rollout"), maximum: 100 },
        seed: whole(0, "random seed of the environment"),
        randomSeed: {
          type: "string",
          enum: ["per-task", "per-rollout"],
          description: "which rollouts share the environment's random numbers: all repeats of a task, or none",
        },
        system: text("system prompt; replaces the `instructions` of the tasks"),
        labels: { type: "object", description: "labels for every row, such as the policy version" },
        groups: { type: "boolean", description: "return all rows of a task together, as one group" },
        stepRewards: { type: "boolean", description: "add the reward at every version of each episode" },
      },
      ["model"],
    ),
    reply: "lines",
    stream: lines,
    example: { request: "iter-0001", repeats: 2, model: { name: "random" } },
    errors: ["not_found", "call_conflict", "invalid_task", "cannot_load", "version_not_found"],
  },
  readRollouts: {
    method: "GET",
    path: request,
    summary: "Continue a request's stream",
    description: "If the server died, the request continues where it stopped.",
    query: object({ after }),
    reply: "lines",
    stream: lines,
    errors: ["not_found", "version_not_found"],
  },
  listRollouts: {
    method: "GET",
    path: "/v1/rollouts",
    summary: "List requests, oldest first",
    query: object({
      after: text("only requests that started after this one"),
      limit: { ...whole(1, "maximum number of items"), maximum: 1000, default: 100 },
    }),
    reply: "RequestPage",
    errors: ["session_not_found"],
  },
  cancelRollouts: {
    method: "DELETE",
    path: request,
    summary: "Cancel a running request, or delete one that has ended",
    description: "Running episodes stop, and the stream ends. The rows of finished rollouts stay readable.",
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
      const asked = body as unknown as RolloutRequest;
      // Only a request that exists has lines to leave out. Checked first, so that a wrong index starts nothing.
      if (query.after > 0 && asked.request === undefined) {
        throw invalidOption("`after` needs the `request` id of a request that exists");
      }
      if (query.after > 0) await requests.lines(asked.request as string, { after: query.after });
      const id = await requests.start(asked);
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
