// The routes of an agent, as data that checks requests.
import { eventsQuery } from "../http/events-reply.ts";
import { object, type Route } from "../http/route.ts";

const session = "/v1/sessions/{id}";

export const routes = {
  agent: { method: "GET", path: "/v1/agent" },
  openSession: {
    method: "POST",
    path: "/v1/sessions",
    body: object({
      user: { type: "string", description: "whose session it is; by default user" },
      state: { type: "object", description: "the initial state; what is shared goes to where it is shared" },
    }),
  },
  listSessions: {
    method: "GET",
    path: "/v1/sessions",
    query: object({
      after: { type: "string", description: "the session to go on after" },
      limit: { ...eventsQuery.limit, description: "how many at most" },
    }),
  },
  getSession: { method: "GET", path: session },
  closeSession: { method: "DELETE", path: session },
  getState: {
    method: "GET",
    path: `${session}/state`,
    query: object({
      version: { type: "integer", minimum: 1, description: "the version to look at; by default the newest" },
    }),
  },
  listEvents: { method: "GET", path: `${session}/events`, query: object(eventsQuery) },
  runAgent: {
    method: "POST",
    path: `${session}/run`,
    body: {
      ...object({
        message: {
          type: ["string", "array"],
          description: "what the user says: a text, or items. Without it a turn that was cut short goes on",
        },
        state_delta: { type: "object", description: "set together with the message" },
        call: {
          type: "string",
          description: "the id of the turn, as the Idempotency-Key header: a repeat is applied once",
        },
      }),
      dependentRequired: { state_delta: ["message"], call: ["message"] },
    },
  },
  rewindSession: {
    method: "POST",
    path: `${session}/rewind`,
    body: object({ invocation: { type: "string", description: "the one to go back to before" } }, ["invocation"]),
  },
} as const satisfies { [name: string]: Route };
