// Schemas for the REST API's replies, for the OpenAPI document. Tests check real replies against them.
import { eventTypes } from "../../core/event.ts";
import type { FieldSchema } from "../http/field-schema.ts";

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;
const any = {} as const;
const count = { type: "integer", minimum: 0 } as const;
const time = { type: "integer", description: "in milliseconds since 1970" } as const;
const anyObject = { type: "object" } as const;
const nullable = <const S extends "string" | "integer">(type: S, description: string) =>
  ({ type: [type, "null"], description }) as const;

/** Builds the schema of an object. A field whose name ends with "?" is optional. */
function shape(fields: { [name: string]: FieldSchema }): FieldSchema {
  const properties = Object.entries(fields).map(([name, schema]) => [name.replace("?", ""), schema]);
  const required = Object.keys(fields).filter((name) => !name.endsWith("?"));
  return { type: "object", properties: Object.fromEntries(properties) as typeof fields, required };
}

const listed = {
  session: text,
  environment: text,
  version: { ...count, description: "the number of events in the session's log" },
  opened: time,
  touched: { ...time, description: "the time of the newest event, in milliseconds since 1970" },
  "parent?": shape({ session: text, version: count }),
  "ended?": {
    type: "string",
    enum: ["closed", "idle", "age", "capacity"],
    description: "why the session ended; missing while it is open",
  },
} as const;

const labels = { ...anyObject, description: "labels; the label `title` is a conversation's title" } as const;
const user = { ...text, description: "the user of a conversation" } as const;
const schema = { ...anyObject, description: "a JSON Schema" } as const;
const event = shape({
  version: { type: "integer", minimum: 1 },
  type: { type: "string", enum: eventTypes.filter((type) => type !== "shared.changed") },
  at: time,
});
const error = shape({
  error: shape({ code: text, message: text, "detail?": { description: "details for programs" } }),
});
const tool = shape({
  name: text,
  description: text,
  kind: { type: "string", enum: ["state", "concurrent", "external"] },
  input: schema,
});

const agentTool = shape({ name: text, description: text, input: schema });

export const replies = {
  Splits: shape({ splits: { type: "array", items: shape({ name: text, count }) } }),
  TaskPage: shape({
    split: text,
    count: { ...count, description: "the number of tasks in the split" },
    tasks: { type: "array", items: anyObject },
    next: nullable("integer", "the value of `start` for the next page; null on the last page"),
  }),
  Agent: shape({
    name: text,
    description: text,
    model: nullable("string", "null for an agent that only runs other agents"),
    tools: { type: "array", items: agentTool },
    agents: { type: "array", items: text, description: "the agents that this one can transfer to, or runs" },
  }),
  Environment: shape({
    name: text,
    description: text,
    tools: { type: "array", items: tool },
    task: schema,
    state: schema,
    unseeded: { type: "string", enum: ["guard", "defaults", "reject"] },
    reseed: { type: "string", enum: ["guard", "replace", "reject"] },
    bestReward: { type: "number", description: "the best known reward" },
  }),
  Session: shape({
    ...listed,
    episode: { ...count, description: "the episode number; 0 if the session was never seeded" },
    task: any,
    labels,
    "user?": user,
    "turn?": shape({ invocation: text, agent: text, "call?": text, "waiting?": { type: "array", items: text } }),
    "mcp?": {
      ...anyObject,
      description: "how an MCP client connects to the session: `url_path` with `headers`, or `bound_url_path`",
    },
  }),
  SessionPage: shape({
    sessions: {
      type: "array",
      items: shape({ ...listed, "labels?": labels, "user?": user }),
      description: "the sessions; `labels` are present in lists of conversations and in lists by label",
    },
    next: nullable("string", "the value of `after` for the next page; null if there is none"),
    more: { ...flag, description: "whether there are more sessions than the page limit" },
  }),
  UserToken: shape({
    token: { ...text, description: "send it as `Authorization: Bearer TOKEN`" },
    user: text,
    expires: time,
  }),
  Closed: shape({ closed: flag }),
  Expired: shape({ ended: { ...count, description: "the number of sessions that were ended" } }),
  RunResult: shape({
    session: text,
    invocation: { ...text, description: "the id of the turn in the log" },
    outcome: {
      ...text,
      description: "answered, waiting, failed, abandoned, or the name of the limit that the turn reached",
    },
    "calls?": { type: "array", items: anyObject, description: "calls of the client's tools that the turn waits for" },
    repeated: { ...flag, description: "true if the call id was used before; the events are then the recorded events" },
    "error?": { ...shape({ code: text, message: text }), description: "why the turn failed" },
    text: { ...text, description: "the agent's last text" },
    events: { type: "array", items: event },
  }),
  State: shape({ session: text, version: count, state: any }),
  EventPage: shape({
    events: { type: "array", items: event },
    next: nullable("integer", "the value of `after` for the next page; null on the last page"),
  }),
  Event: event,
  Answer: shape({
    ok: {
      ...flag,
      description: "true: `output` is the tool's output. false: `error` is for the model to read",
    },
    "output?": any,
    "error?": error.properties?.["error"] as FieldSchema,
    session: text,
    version: { ...count, description: "the version after the call" },
    repeated: { ...flag, description: "true if the call id was used before; this is the recorded answer" },
    unseeded: { ...flag, description: "true if the session was never seeded" },
  }),
  Seeded: shape({ session: text, version: count, episode: count, repeated: flag }),
  Verification: shape({
    reward: { type: "number" },
    verdict: { ...shape({ reward: { type: "number" } }), description: "everything that verify returned" },
    session: text,
    version: count,
    episode: count,
    reseeds: { ...count, description: "how many times the session was seeded again" },
    verdicts: { ...count, description: "the number of verdicts on this episode, including this one" },
  }),
  Rewards: shape({
    session: text,
    rewards: {
      type: "array",
      items: shape({
        version: count,
        reward: { type: ["number", "null"], description: "null if verify failed at this version" },
        "error?": { ...text, description: "why verify failed" },
      }),
    },
  }),
  PlayResult: shape({
    session: text,
    version: { ...count, description: "the version after the last call" },
    outcome: {
      type: "string",
      enum: ["answered", "steps", "empty", "failed"],
      description: "`steps` and `empty` are limits that the model reached. For `failed`, see `error`",
    },
    steps: { ...count, description: "the number of model answers" },
    items: {
      type: "array",
      items: anyObject,
      description: "the conversation: model answers, tool calls and their outputs",
    },
    "error?": shape({ code: text, message: text }),
  }),
  Replayed: shape({
    same: flag,
    "events?": count,
    "version?": count,
    "what?": { type: "string", enum: ["outcome", "state", "event"] },
    "recorded?": any,
    "replayed?": any,
    "message?": text,
  }),
  RequestPage: shape({
    requests: {
      type: "array",
      items: shape({
        request: text,
        state: { type: "string", enum: ["running", "ended"] },
        opened: time,
        done: { ...count, description: "the number of rollouts that have ended" },
        failed: { ...count, description: "the number of rollouts that failed" },
      }),
    },
    next: nullable("string", "the value of `after` for the next page; null on the last page"),
  }),
  Cancelled: shape({
    cancelled: { ...flag, description: "false if the request had already ended" },
    "deleted?": {
      ...flag,
      description: "true if the request had already ended; it was deleted together with its rows",
    },
  }),
  Document: anyObject,
  Error: error,
} as const satisfies { [name: string]: FieldSchema };
