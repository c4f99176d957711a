// The routes of the REST API as data. The same schemas check requests and describe them in the OpenAPI document.
import type { ErrorCode } from "../../core/errors.ts";
import { eventsQuery } from "../http/events-reply.ts";
import { object, type Route as Checked } from "../http/route.ts";
import type { replies } from "./replies.ts";

export interface Route extends Checked {
  readonly summary: string;
  readonly description?: string;
  readonly status: 200 | 201;
  readonly reply: keyof typeof replies | "page";
  /** True if the route can also stream server-sent events. */
  readonly live?: true;
  /** Errors specific to this route; an invalid request or a failing store can happen anywhere. */
  readonly errors: readonly ErrorCode[];
}

const version = (description: string) => ({ type: "integer", minimum: 1, description }) as const;
const time = (description: string) =>
  ({ type: "integer", minimum: 0, description: `${description}, in milliseconds since 1970` }) as const;
const limit = { type: "integer", minimum: 1, maximum: 1000, default: 100, description: "how many at most" } as const;
const task = { description: "the task of the episode; must fit the environment's schema" } as const;
const random = { type: "number", description: "the seed of the episode's random numbers" } as const;
const labels = { type: "object", description: "what to find this episode by" } as const;
const call = {
  type: "string",
  description: "the id of the call: a repeat gives the recorded answer and changes nothing. Or as Idempotency-Key",
} as const;

const session = "/v1/sessions/{id}";
/** The body of a route without input. */
const nothing = object({});

export const routes = {
  environment: {
    method: "GET",
    path: "/v1/environment",
    summary: "The environment, its tools and its schemas",
    status: 200,
    reply: "Environment",
    errors: [],
  },
  openSession: {
    method: "POST",
    path: "/v1/sessions",
    summary: "Open a session, and seed it if there is a task",
    body: { ...object({ task, random, labels }), dependentRequired: { labels: ["task"] } },
    status: 201,
    reply: "Session",
    errors: ["invalid_task", "not_json", "seed_failed"],
  },
  listSessions: {
    method: "GET",
    path: "/v1/sessions",
    summary: "List sessions, in the order of opening",
    description:
      "`next` is the `after` of the next page; null if this was the last. With `idle_before` the order is that of idle " +
      "time, and there is one page only.",
    query: object({
      open: { type: "boolean", description: "true: those that have not ended; false: those that have" },
      opened_before: time("only those opened earlier"),
      idle_before: time("only those whose newest event is older, the longest idle first"),
      after: { type: "string", description: "the session to go on after; not with idle_before" },
      limit,
    }),
    status: 200,
    reply: "SessionPage",
    errors: ["session_not_found"],
  },
  getSession: {
    method: "GET",
    path: session,
    summary: "What is known of a session without its state",
    status: 200,
    reply: "Session",
    errors: ["session_not_found"],
  },
  closeSession: {
    method: "DELETE",
    path: session,
    summary: "Close a session",
    description: "Closing twice is fine: `closed` is false if there was nothing to close.",
    status: 200,
    reply: "Closed",
    errors: ["version_conflict"],
  },
  getState: {
    method: "GET",
    path: `${session}/state`,
    summary: "The state, now or at a version",
    query: object({ version: version("the version to look at; by default the newest") }),
    status: 200,
    reply: "State",
    errors: ["session_not_found", "version_not_found"],
  },
  listEvents: {
    method: "GET",
    path: `${session}/events`,
    summary: "The events of the log, in pages or live",
    description:
      "With `Accept: text/event-stream` each event is sent as it happens, once and in order, until the session has " +
      "ended; `Last-Event-ID` goes on after that version. 204 if the session has ended and there is nothing to come.",
    query: object(eventsQuery),
    status: 200,
    reply: "EventPage",
    live: true,
    errors: ["session_not_found"],
  },
  callTool: {
    method: "POST",
    path: `${session}/call`,
    summary: "Call a tool",
    description:
      "Every answer is a 200; `ok` says what kind. `ok: false` is what the model should read: an unknown tool, bad " +
      "arguments, a tool that refused. What the model cannot help is an error.",
    body: object(
      {
        tool: { type: "string", description: "the name of the tool" },
        input: { description: "its arguments; by default none" },
        call,
        episode: {
          type: "integer",
          minimum: 0,
          description: "the episode the caller is in: too late, the call is refused as episode_ended",
        },
      },
      ["tool"],
    ),
    idempotent: true,
    status: 200,
    reply: "Answer",
    errors: [
      ...(["session_not_found", "session_closed", "session_unseeded", "episode_ended", "call_conflict"] as const),
      ...(["call_undone", "call_in_progress", "call_cancelled", "version_conflict", "not_json"] as const),
    ],
  },
  seedSession: {
    method: "POST",
    path: `${session}/seed`,
    summary: "Start a new episode in the session",
    body: object({ task, random, call, labels }, ["task"]),
    idempotent: true,
    status: 200,
    reply: "Seeded",
    errors: [
      ...(["session_not_found", "session_closed", "invalid_task", "not_json", "episode_in_flight"] as const),
      ...(["call_conflict", "call_undone", "version_conflict", "seed_failed"] as const),
    ],
  },
  verifySession: {
    method: "POST",
    path: `${session}/verify`,
    summary: "Score the state, now or at a version",
    description: "Changes nothing, and gives the same verdict when asked again.",
    body: object({
      response: { description: "what the agent answered, for environments that look at it" },
      version: version("the version to judge; by default the newest"),
      task: { description: "the task to judge by; by default that of the episode" },
    }),
    status: 200,
    reply: "Verification",
    errors: [
      ...(["session_not_found", "version_not_found", "invalid_task", "not_json", "call_cancelled"] as const),
      ...(["version_conflict", "verify_failed"] as const),
    ],
  },
  sessionRewards: {
    method: "GET",
    path: `${session}/rewards`,
    summary: "The reward at every version that changed the state",
    description:
      "What verify would give there, from the first seed on. It is recorded nowhere: the log stays as it is. Of more than " +
      "1,000 such versions that many are judged, spread evenly, with the first and the last.",
    status: 200,
    reply: "Rewards",
    errors: ["session_not_found", "call_cancelled", "verify_failed"],
  },
  playSession: {
    method: "POST",
    path: `${session}/play`,
    summary: "Have a model go on with the session",
    description:
      "Until it makes no more calls. Each call is committed as it is made; to end the request cancels what has not been. " +
      "Sent again, it is played again.",
    body: object(
      {
        model: { type: "string", description: "one of the models of `GET /v1/about`" },
        input: {
          type: ["string", "array"],
          description: "what the user says, or the conversation so far as items; by default the task, as JSON",
        },
        max_steps: {
          type: "integer",
          minimum: 1,
          maximum: 1000,
          description: "answers of the model at most; by default 20",
        },
      },
      ["model"],
    ),
    status: 200,
    reply: "PlayResult",
    errors: ["session_not_found", "session_closed", "run_cancelled", "version_conflict"],
  },
  forkSession: {
    method: "POST",
    path: `${session}/fork`,
    summary: "Open a session that starts as this one was",
    body: object({ version: version("the version to start from; by default the newest") }),
    status: 201,
    reply: "Session",
    errors: ["session_not_found", "version_not_found"],
  },
  rewindSession: {
    method: "POST",
    path: `${session}/rewind`,
    summary: "Make the session what it was at a version",
    description: "By one more event: nothing is lost.",
    body: object({ version: version("the version to go back to") }, ["version"]),
    status: 200,
    reply: "Session",
    errors: ["session_not_found", "version_not_found", "session_closed", "version_conflict"],
  },
  replaySession: {
    method: "POST",
    path: `${session}/replay`,
    summary: "Run the log again and compare",
    description: "On nothing but the log. Names the first event that comes out differently.",
    body: nothing,
    status: 200,
    reply: "Replayed",
    errors: ["session_not_found", "seed_failed"],
  },
  openapi: {
    method: "GET",
    path: "/openapi.json",
    summary: "This document",
    status: 200,
    reply: "Document",
    errors: [],
  },
  docs: {
    method: "GET",
    path: "/docs",
    summary: "A page to read this and to try it",
    status: 200,
    reply: "page",
    errors: [],
  },
} as const satisfies { [name: string]: Route };
