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

/** A name that ends with "?" is optional. */
function shape(fields: { [name: string]: FieldSchema }): FieldSchema {
  const properties = Object.entries(fields).map(([name, schema]) => [name.replace("?", ""), schema]);
  const required = Object.keys(fields).filter((name) => !name.endsWith("?"));
  return { type: "object", properties: Object.fromEntries(properties) as typeof fields, required };
}

const listed = {
  session: text,
  environment: text,
  version: { ...count, description: "the number of events in its log" },
  opened: time,
  touched: { ...time, description: "when its newest event happened, in milliseconds since 1970" },
  "parent?": shape({ session: text, version: count }),
  "ended?": { type: "string", enum: ["closed", "idle", "age", "capacity"], description: "why it ended, if it has" },
} as const;

const schema = { ...anyObject, description: "a JSON Schema" } as const;
const event = shape({
  version: { type: "integer", minimum: 1 },
  type: { type: "string", enum: eventTypes.filter((type) => type !== "shared.changed") },
  at: time,
});
const error = shape({
  error: shape({ code: text, message: text, "detail?": { description: "more about it, for programs" } }),
});
const tool = shape({
  name: text,
  description: text,
  kind: { type: "string", enum: ["state", "concurrent", "external"] },
  input: schema,
});

const agentTool = shape({ name: text, description: text, input: schema });

export const replies = {
  Agent: shape({
    name: text,
    description: text,
    model: nullable("string", "null for agents that run others"),
    tools: { type: "array", items: agentTool },
    agents: { type: "array", items: text, description: "the agents that it can hand over to, or runs" },
  }),
  Environment: shape({
    name: text,
    description: text,
    tools: { type: "array", items: tool },
    task: schema,
    state: schema,
    unseeded: { type: "string", enum: ["guard", "defaults", "reject"] },
    reseed: { type: "string", enum: ["guard", "replace", "reject"] },
    bestReward: { type: "number", description: "the reward of the best known play" },
  }),
  Session: shape({
    ...listed,
    episode: { ...count, description: "0 if it was never seeded" },
    task: any,
    labels: anyObject,
    "user?": { ...text, description: "of a conversation: whose it is" },
    "turn?": shape({ invocation: text, agent: text, "call?": text }),
    "mcp?": {
      ...anyObject,
      description: "how an MCP client reaches it: `url_path` with `headers`, or `bound_url_path`",
    },
  }),
  SessionPage: shape({
    sessions: { type: "array", items: shape(listed) },
    next: nullable("string", "the `after` of the next page"),
    more: { ...flag, description: "whether the page was cut at its limit" },
  }),
  Closed: shape({ closed: flag }),
  Expired: shape({ ended: { ...count, description: "how many sessions were ended" } }),
  RunResult: shape({
    session: text,
    invocation: { ...text, description: "the id of the turn in the log" },
    outcome: { ...text, description: "answered, failed, abandoned, or the limit that it reached" },
    repeated: { ...flag, description: "the call id was seen before: these are the recorded events" },
    "error?": { ...shape({ code: text, message: text }), description: "why it failed" },
    events: { type: "array", items: event },
  }),
  State: shape({ session: text, version: count, state: any }),
  EventPage: shape({
    events: { type: "array", items: event },
    next: nullable("integer", "the `after` of the next page"),
  }),
  Event: event,
  Answer: shape({
    ok: {
      ...flag,
      description: "true: `output` is what the tool gave. false: `error` is what the model should read",
    },
    "output?": any,
    "error?": error.properties?.["error"] as FieldSchema,
    session: text,
    version: { ...count, description: "the version after the call" },
    repeated: { ...flag, description: "the call id was seen before, and this was answered then" },
    unseeded: { ...flag, description: "the session was never seeded" },
  }),
  Seeded: shape({ session: text, version: count, episode: count, repeated: flag }),
  Verification: shape({
    reward: { type: "number" },
    verdict: { ...shape({ reward: { type: "number" } }), description: "the result of verify, with its own fields" },
    session: text,
    version: count,
    episode: count,
    reseeds: { ...count, description: "how often the session was seeded again" },
    verdicts: { ...count, description: "how many verdicts there are of this episode, with this one" },
  }),
  Rewards: shape({
    session: text,
    rewards: {
      type: "array",
      items: shape({
        version: count,
        reward: { type: ["number", "null"], description: "null if verify failed there" },
        "error?": { ...text, description: "why it failed" },
      }),
    },
  }),
  PlayResult: shape({
    session: text,
    version: { ...count, description: "the version after its last call" },
    outcome: {
      type: "string",
      enum: ["answered", "steps", "empty", "failed"],
      description: "`steps`, `empty`: the limit that it reached. `failed`: see `error`",
    },
    steps: { ...count, description: "answers of the model" },
    items: { type: "array", items: anyObject, description: "what the model said and was told" },
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
        done: { ...count, description: "rollouts that have ended" },
        failed: { ...count, description: "those of them that failed" },
      }),
    },
    next: nullable("string", "the `after` of the next page"),
  }),
  Cancelled: shape({
    cancelled: { ...flag, description: "false if it had ended before" },
    "deleted?": { ...flag, description: "true if it had ended before, and was deleted with its rows" },
  }),
  Document: anyObject,
  Error: error,
} as const satisfies { [name: string]: FieldSchema };
