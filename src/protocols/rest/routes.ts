// The REST API's routes as data: routes for every session, and for episodes. The same schemas check requests and
// describe them in the OpenAPI document.
import type { ErrorCode } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import { eventsQuery } from "../http/events-reply.ts";
import { object, type Route as Checked } from "../http/route.ts";
import type { replies } from "./replies.ts";

export interface Route extends Checked {
  readonly summary: string;
  readonly description?: string;
  /** Default 200. */
  readonly status?: 200 | 201;
  readonly reply: keyof typeof replies | "page" | "lines";
  /** Describes the lines in the reply, or the server-sent events that the route sends on request. */
  readonly stream?: string;
  /** True if a client can reconnect to the stream. */
  readonly resumable?: true;
  /** A body to try, if the required fields are not enough. */
  readonly example?: { readonly [field: string]: Json };
  /** Errors specific to this route; an invalid request or a failing store can happen on any route. */
  readonly errors?: readonly ErrorCode[];
}

const version = (description: string) => ({ type: "integer", minimum: 1, description }) as const;
const time = (description: string) =>
  ({ type: "integer", minimum: 0, description: `${description}, in milliseconds since 1970` }) as const;
const limit = {
  type: "integer",
  minimum: 1,
  maximum: 1000,
  default: 100,
  description: "maximum number of items",
} as const;
const task = { description: "the task for the episode; it must match the environment's task schema" } as const;
const random = { type: "number", description: "the random seed for the episode" } as const;
export const labels = { type: "object", description: "labels, which can be used to find the session" } as const;
const call = {
  type: "string",
  description:
    "a call id: a retry with the same id returns the recorded answer and changes nothing. The header Idempotency-Key has the same effect",
} as const;

export const session = "/v1/sessions/{id}";
/** Error codes for changes of an open session (`changing`), calls with an id (`once`) and verdicts (`judging`). */
export const changing = ["session_not_found", "session_closed", "version_conflict"] as const;
export const once = ["call_conflict", "call_undone"] as const;
const judging = ["session_not_found", "call_cancelled", "verify_failed"] as const;
/** The body of a route without input. */
const nothing = object({});

export const forkVersion = version("the version to start from (default: the newest)");
export const rewindVersion = version("the version to return to");

export const sharedRoutes = {
  listSessions: {
    method: "GET",
    path: "/v1/sessions",
    summary: "List sessions, oldest first",
    description:
      "`next` is the value of `after` for the next page; null on the last page. With `idle_before`, the sessions idle longest come first, " +
      "and there is one page only.",
    query: object({
      open: { type: "boolean", description: "true: only open sessions; false: only ended ones" },
      user: { type: "string", description: "only sessions of this user" },
      labels: { type: "object", description: "only sessions that have all of these labels" },
      opened_before: time("only sessions opened before this time"),
      idle_before: time("only sessions whose newest event is older than this time"),
      after: { type: "string", description: "list the sessions after this one; cannot be combined with idle_before" },
      limit,
    }),
    reply: "SessionPage",
    errors: ["session_not_found"],
  },
  getSession: {
    method: "GET",
    path: session,
    summary: "Get a session, without its state",
    reply: "Session",
    errors: ["session_not_found"],
  },
  closeSession: {
    method: "DELETE",
    path: session,
    summary: "Close a session",
    description: "Closing twice is allowed: `closed` is false if the session had already ended, or does not exist.",
    reply: "Closed",
    errors: ["version_conflict", "session_busy"],
  },
  getState: {
    method: "GET",
    path: `${session}/state`,
    summary: "Get the state, now or at a version",
    query: object({ version: version("the version to read (default: the newest)") }),
    reply: "State",
    errors: ["session_not_found", "version_not_found"],
  },
  listEvents: {
    method: "GET",
    path: `${session}/events`,
    summary: "Get the events in the log, in pages or as a live stream",
    description:
      "With `Accept: text/event-stream` each event is sent as it happens, once and in order, until the session has " +
      "ended. `Last-Event-ID` continues after that version. The status is 204 if the session has ended and all events " +
      "were sent.",
    query: object(eventsQuery),
    reply: "EventPage",
    stream: "`id` is the version, `event` the type, and `data` an Event as JSON",
    resumable: true,
    errors: ["session_not_found"],
  },
  forkSession: {
    method: "POST",
    path: `${session}/fork`,
    summary: "Open a copy of the session, as it was at a version",
    body: object({ version: forkVersion }),
    status: 201,
    reply: "Session",
    errors: ["session_not_found", "version_not_found"],
  },
  rewindSession: {
    method: "POST",
    path: `${session}/rewind`,
    summary: "Return the session to a version",
    description: "Adds one event; no event is removed.",
    body: object({ version: rewindVersion }, ["version"]),
    reply: "Session",
    errors: [...changing, "version_not_found", "session_busy"],
  },
  replaySession: {
    method: "POST",
    path: `${session}/replay`,
    summary: "Replay the log and compare the results",
    description: "The replay needs only the log. The reply contains the first event that differs.",
    body: nothing,
    reply: "Replayed",
    errors: ["session_not_found", "seed_failed"],
  },
  expireSessions: {
    method: "POST",
    path: "/v1/expire",
    summary: "End all sessions that have exceeded a limit",
    description: "The server also does this periodically.",
    body: nothing,
    reply: "Expired",
  },
  openapi: {
    method: "GET",
    path: "/openapi.json",
    summary: "Get this OpenAPI document",
    reply: "Document",
  },
  docs: {
    method: "GET",
    path: "/docs",
    summary: "Get a web page that shows this document and can send requests",
    reply: "page",
  },
} as const satisfies { [name: string]: Route };

export const episodeRoutes = {
  environment: {
    method: "GET",
    path: "/v1/environment",
    summary: "Get the environment, its tools and its schemas",
    reply: "Environment",
  },
  listSplits: {
    method: "GET",
    path: "/v1/tasks",
    summary: "List the splits of the tasks, and their sizes",
    description: "`default` is tasks.jsonl next to the environment, and `NAME` is tasks_NAME.jsonl.",
    reply: "Splits",
  },
  listTasks: {
    method: "GET",
    path: "/v1/tasks/{id}",
    summary: "List the tasks of a split, by index",
    description:
      "Returns whole rows, including the answers that `verify` compares with. Never show a row to a model that plays it.",
    query: object({
      start: { type: "integer", minimum: 0, default: 0, description: "the index of the first task" },
      limit,
    }),
    reply: "TaskPage",
    errors: ["not_found", "invalid_task"],
  },
  openSession: {
    method: "POST",
    path: "/v1/sessions",
    summary: "Open a session, and seed it if there is a task",
    body: {
      ...object({
        task,
        random,
        labels,
        tools: {
          type: "array",
          items: { type: "string" },
          description: "the tools that an MCP client may use in this session (default: all)",
        },
      }),
      dependentRequired: { labels: ["task"] },
    },
    status: 201,
    reply: "Session",
    errors: ["invalid_task", "not_json", "seed_failed"],
  },
  ...sharedRoutes,
  callTool: {
    method: "POST",
    path: `${session}/call`,
    summary: "Call a tool",
    description:
      "Every tool result has status 200, and `ok` says whether the call succeeded. With `ok: false`, `error` is for the model to read: an unknown " +
      "tool, invalid arguments, or a tool that refused the call. Server failures have another status.",
    body: object(
      {
        tool: { type: "string", description: "the tool name" },
        input: { description: "the arguments (default: none)" },
        call,
        episode: {
          type: "integer",
          minimum: 0,
          description:
            "the caller's episode number; if a newer episode has started, the call is refused with episode_ended",
        },
      },
      ["tool"],
    ),
    idempotent: true,
    reply: "Answer",
    errors: [
      ...changing,
      ...once,
      "session_unseeded",
      "episode_ended",
      "call_in_progress",
      "call_cancelled",
      "not_json",
    ],
  },
  seedSession: {
    method: "POST",
    path: `${session}/seed`,
    summary: "Start a new episode in the session",
    body: object({ task, random, call, labels }, ["task"]),
    idempotent: true,
    reply: "Seeded",
    errors: [...changing, ...once, "invalid_task", "not_json", "episode_in_flight", "seed_failed"],
  },
  verifySession: {
    method: "POST",
    path: `${session}/verify`,
    summary: "Score the state, now or at a version",
    description: "This changes nothing. The same request returns the same verdict.",
    body: object({
      response: { description: "the agent's response, for environments whose verify reads it" },
      version: version("the version to verify (default: the newest)"),
      task: { description: "the task to verify against (default: the episode's task)" },
    }),
    reply: "Verification",
    errors: [...judging, "version_not_found", "invalid_task", "not_json", "version_conflict"],
  },
  sessionRewards: {
    method: "GET",
    path: `${session}/rewards`,
    summary: "Get the reward at every version that changed the state",
    description:
      "Runs verify on each version since the first seed. The log does not change. At most 1,000 versions " +
      "are verified: the first, the last, and others spread evenly between them.",
    reply: "Rewards",
    errors: judging,
  },
  playSession: {
    method: "POST",
    path: `${session}/play`,
    summary: "Let a model continue the session",
    description:
      "The model runs until it makes no more tool calls. Each call is committed immediately. Closing the request cancels the rest. " +
      "A second request runs the model again.",
    body: object(
      {
        model: { type: "string", description: "one of the models of `GET /v1/about`" },
        input: {
          type: ["string", "array"],
          description: "the user's message, or the conversation so far as items (default: the task, as JSON)",
        },
        max_steps: {
          type: "integer",
          minimum: 1,
          maximum: 1000,
          description: "maximum number of model answers (default: 20)",
        },
      },
      ["model"],
    ),
    reply: "PlayResult",
    errors: [...changing, "run_cancelled"],
  },
} as const satisfies { [name: string]: Route };
