// The REST API's routes as data: routes for every session, for episodes, and for conversations. The same schemas check
// requests and describe them in the OpenAPI document.
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
  /** Errors specific to this route; an invalid request or a failing store can happen anywhere. */
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
const task = { description: "the task of the episode; must fit the environment's schema" } as const;
const random = { type: "number", description: "the seed of the episode's random numbers" } as const;
const labels = { type: "object", description: "labels to find the session by" } as const;
const call = {
  type: "string",
  description: "the id of the call: a repeat gives the recorded answer and changes nothing. Or as Idempotency-Key",
} as const;

const session = "/v1/sessions/{id}";
/** Errors when changing an open session, for calls with an id, for runs, and for verdicts. */
const changing = ["session_not_found", "session_closed", "version_conflict"] as const;
const once = ["call_conflict", "call_undone"] as const;
const running = ["session_busy", "turn_lost", "run_cancelled"] as const;
const judging = ["session_not_found", "call_cancelled", "verify_failed"] as const;
/** The body of a route without input. */
const nothing = object({});

const forkVersion = version("the version to start from; by default the newest");
const rewindVersion = version("the version to go back to");

/** The operations on every session. */
export const sharedRoutes = {
  listSessions: {
    method: "GET",
    path: "/v1/sessions",
    summary: "List sessions, in the order of opening",
    description:
      "`next` is the `after` of the next page; null on the last page. With `idle_before` the longest idle come first, " +
      "and there is one page only.",
    query: object({
      open: { type: "boolean", description: "true: only open sessions; false: only ended ones" },
      user: { type: "string", description: "only sessions of this user" },
      labels: { type: "object", description: "only sessions that have all of these labels" },
      opened_before: time("only sessions opened earlier"),
      idle_before: time("only sessions whose newest event is older"),
      after: { type: "string", description: "the session to continue after; not with idle_before" },
      limit,
    }),
    reply: "SessionPage",
    errors: ["session_not_found"],
  },
  getSession: {
    method: "GET",
    path: session,
    summary: "A session without its state",
    reply: "Session",
    errors: ["session_not_found"],
  },
  closeSession: {
    method: "DELETE",
    path: session,
    summary: "Close a session",
    description: "Closing twice is fine: `closed` is false if the session had ended before, or is unknown.",
    reply: "Closed",
    errors: ["version_conflict", "session_busy"],
  },
  getState: {
    method: "GET",
    path: `${session}/state`,
    summary: "The state, now or at a version",
    query: object({ version: version("the version to look at; by default the newest") }),
    reply: "State",
    errors: ["session_not_found", "version_not_found"],
  },
  listEvents: {
    method: "GET",
    path: `${session}/events`,
    summary: "The events of the log, in pages or live",
    description:
      "With `Accept: text/event-stream` each event is sent as it happens, once and in order, until the session has " +
      "ended; `Last-Event-ID` continues after that version. 204 if the session has ended and all events were sent.",
    query: object(eventsQuery),
    reply: "EventPage",
    stream: "`id` is the version, `event` the type, and `data` an Event as JSON",
    resumable: true,
    errors: ["session_not_found"],
  },
  forkSession: {
    method: "POST",
    path: `${session}/fork`,
    summary: "Open a copy of this session, as it was at a version",
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
    summary: "Run the log again and compare",
    description: "Uses only the log. Names the first event that differs.",
    body: nothing,
    reply: "Replayed",
    errors: ["session_not_found", "seed_failed"],
  },
  expireSessions: {
    method: "POST",
    path: "/v1/expire",
    summary: "End all sessions that are over a limit now",
    description: "The server also does this from time to time.",
    body: nothing,
    reply: "Expired",
  },
  openapi: {
    method: "GET",
    path: "/openapi.json",
    summary: "This document",
    reply: "Document",
  },
  docs: {
    method: "GET",
    path: "/docs",
    summary: "A page that shows this document and sends requests",
    reply: "page",
  },
} as const satisfies { [name: string]: Route };

/** The routes of an environment. */
export const episodeRoutes = {
  environment: {
    method: "GET",
    path: "/v1/environment",
    summary: "The environment, its tools and its schemas",
    reply: "Environment",
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
          description: "the tools that an MCP client of the session may use; by default all",
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
      "Every answer is a 200, and `ok` tells success from failure. With `ok: false` the model should read `error`: an unknown " +
      "tool, bad arguments, or a tool that refused. Failures of the server are errors with another status.",
    body: object(
      {
        tool: { type: "string", description: "the name of the tool" },
        input: { description: "its arguments; by default none" },
        call,
        episode: {
          type: "integer",
          minimum: 0,
          description: "the caller's episode; if a newer one has begun, the call is refused as episode_ended",
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
    description: "Changes nothing, and gives the same verdict when asked again.",
    body: object({
      response: { description: "the agent's response, for environments that read it" },
      version: version("the version to judge; by default the newest"),
      task: { description: "the task to judge by; by default that of the episode" },
    }),
    reply: "Verification",
    errors: [...judging, "version_not_found", "invalid_task", "not_json", "version_conflict"],
  },
  sessionRewards: {
    method: "GET",
    path: `${session}/rewards`,
    summary: "The reward at every version that changed the state",
    description:
      "The reward that verify would give at each version, from the first seed. The log does not change. At most 1,000 versions " +
      "are judged, spread evenly, with the first and the last.",
    reply: "Rewards",
    errors: judging,
  },
  playSession: {
    method: "POST",
    path: `${session}/play`,
    summary: "Let a model continue the session",
    description:
      "Until it makes no more calls. Each call is committed when it is made. Closing the request cancels the rest. " +
      "A repeated request plays again.",
    body: object(
      {
        model: { type: "string", description: "one of the models of `GET /v1/about`" },
        input: {
          type: ["string", "array"],
          description: "the user's message, or the conversation so far as items; by default the task, as JSON",
        },
        max_steps: {
          type: "integer",
          minimum: 1,
          maximum: 1000,
          description: "maximum answers of the model; by default 20",
        },
      },
      ["model"],
    ),
    reply: "PlayResult",
    errors: [...changing, "run_cancelled"],
  },
} as const satisfies { [name: string]: Route };

/** The routes of an agent. */
export const conversationRoutes = {
  agent: {
    method: "GET",
    path: "/v1/agent",
    summary: "The agent, its model, its tools and its sub-agents",
    reply: "Agent",
  },
  openSession: {
    method: "POST",
    path: "/v1/sessions",
    summary: "Open a session",
    body: object({
      user: { type: "string", description: "the owner of the session; by default user" },
      state: { type: "object", description: "the initial state; keys with user: or app: go to shared state" },
      labels,
      isolated: { type: "boolean", description: "true: user: and app: keys stay in the session" },
    }),
    status: 201,
    reply: "Session",
    errors: ["not_json"],
  },
  ...sharedRoutes,
  runAgent: {
    method: "POST",
    path: `${session}/run`,
    summary: "The agent answers a message",
    description:
      "`outcome` says how the turn ended. While another run has the session, on any server, it is refused as " +
      "session_busy before it begins; a repeat of that run waits for it. Closing the request cancels the run.",
    body: {
      ...object({
        message: {
          type: ["string", "array"],
          description: "a text, or items. Without it a turn that was cut short continues",
        },
        state_delta: { type: "object", description: "set together with the message" },
        call: { type: "string", description: "the id of the turn: a repeat is applied once. Or as Idempotency-Key" },
      }),
      dependentRequired: { state_delta: ["message"], call: ["message"] },
    },
    example: { message: "hello" },
    idempotent: true,
    reply: "RunResult",
    stream: "each event as it is committed, `partial` pieces of answers, then `done` with the result, or `error`",
    errors: [...changing, ...once, ...running, "nothing_to_continue", "invalid_agent", "not_json"],
  },
  forkSession: {
    ...sharedRoutes.forkSession,
    body: object({
      version: forkVersion,
      set: { type: "object", description: "keys to set in the state of the fork" },
    }),
    errors: [...sharedRoutes.forkSession.errors, "not_json"],
  },
  rewindSession: {
    ...sharedRoutes.rewindSession,
    summary: "Return the session to a version, or to before a turn",
    body: {
      ...object({
        version: rewindVersion,
        invocation: { type: "string", description: "the turn to undo, with everything after it" },
      }),
      minProperties: 1,
      maxProperties: 1,
    },
    example: { version: 1 },
  },
} as const satisfies { [name: string]: Route };
