// The routes of an agent's REST API as data, in addition to the routes of every session.
import { object } from "../http/route.ts";
import { changing, forkVersion, labels, once, rewindVersion, session, sharedRoutes, type Route } from "./routes.ts";

/** Error codes of runs, and of results for calls that a turn waits for. */
const running = ["session_busy", "turn_lost", "run_cancelled"] as const;
const waiting = ["call_not_open", "results_missing"] as const;

export const conversationRoutes = {
  agent: {
    method: "GET",
    path: "/v1/agent",
    summary: "Get the agent, its model, its tools and its sub-agents",
    reply: "Agent",
  },
  issueToken: {
    method: "POST",
    path: "/v1/tokens",
    summary: "Get a token for a user",
    description:
      "A request with this token may use only the user's conversations, with every agent of the server. Issuing a token requires the server's own token.",
    body: object(
      {
        user: { type: "string", description: "the user that the token names" },
        expires: {
          type: "integer",
          minimum: 0,
          description: "when the token expires, in milliseconds since 1970 (default: in 24 hours)",
        },
      },
      ["user"],
    ),
    example: { user: "ann" },
    reply: "UserToken",
    errors: ["not_found", "foreign_user"],
  },
  openSession: {
    method: "POST",
    path: "/v1/sessions",
    summary: "Open a session",
    body: object({
      user: { type: "string", description: "the session's user (default: user)" },
      state: {
        type: "object",
        description: "the initial state; keys that start with user: or app: are stored in shared state",
      },
      labels: { ...labels, description: `${labels.description}; \`title\` is the session's title` },
      isolated: {
        type: "boolean",
        description: "true: user: and app: keys stay in the session instead of shared state",
      },
    }),
    status: 201,
    reply: "Session",
    errors: ["not_json"],
  },
  ...sharedRoutes,
  runAgent: {
    method: "POST",
    path: `${session}/run`,
    summary: "Send a message to the agent",
    description:
      "`outcome` says how the turn ended. While another run is active in the session, on any server, the request is refused with " +
      "session_busy. A retry of that run waits for its result. Closing the request cancels the run.",
    body: {
      ...object({
        message: {
          type: ["string", "array"],
          description: "a string or a list of items; without a message, an interrupted turn continues",
        },
        client_tools: {
          type: "array",
          items: { type: "object" },
          description: "function tools that the client runs; when the agent calls one, `outcome` is waiting",
        },
        results: {
          type: "array",
          items: { type: "object" },
          description: "the results of all `calls` of a waiting turn, each with `call_id` and `output`",
        },
        state_delta: { type: "object", description: "state keys to set together with the message or the results" },
        labels: { type: "object", description: "labels to store with the message or the results" },
        user: { type: "string", description: "refuse the turn if the session does not belong to this user" },
        seen: {
          type: "integer",
          description: "the newest version that the client has read; refuse the turn if a newer message was committed",
        },
        call: {
          type: "string",
          description:
            "a call id: requests with the same id are applied once. The header Idempotency-Key has the same effect",
        },
      }),
    },
    example: { message: "hello" },
    idempotent: true,
    reply: "RunResult",
    stream:
      "each event when it is committed, `partial` pieces of answers, and finally `done` with the result, or `error`",
    errors: [...changing, ...once, ...running, ...waiting, "nothing_to_continue", "invalid_agent", "not_json"],
  },
  cancelTurn: {
    method: "POST",
    path: `${session}/cancel`,
    summary: "Cancel the turn that is running",
    description:
      "If the turn runs on another server, that server notices at its next step. Committed steps stay. `cancelled` is " +
      "false if no such turn is running.",
    body: object({
      invocation: { type: "string", description: "the turn to cancel (default: whichever turn is running)" },
    }),
    reply: "Cancelled",
    errors: ["session_not_found", "session_closed", "version_conflict"],
  },
  labelSession: {
    method: "POST",
    path: `${session}/label`,
    summary: "Set the title and other labels of a session",
    description: "Adds one event. Labels not named in the request are unchanged. A rewind keeps the labels.",
    body: object(
      { labels: { type: "object", description: "the labels to set; null removes a label, and `title` is the title" } },
      ["labels"],
    ),
    example: { labels: { title: "The bill of May" } },
    reply: "Session",
    errors: [...changing, "session_busy", "not_json"],
  },
  forkSession: {
    ...sharedRoutes.forkSession,
    body: object({
      version: forkVersion,
      set: { type: "object", description: "state keys to set in the fork" },
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
