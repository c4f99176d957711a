// An environment's REST API: its own routes, and its description.
import type { AnyEnvironment } from "../../core/environment.ts";
import { HoldfastError } from "../../core/errors.ts";
import { sample } from "../../core/json-sample.ts";
import type { Protocol } from "../../core/protocol.ts";
import { toJsonSchema } from "../../core/schema.ts";
import type { Episodes } from "../../core/sessions.ts";
import type { SessionPlayer } from "../../rollout/play/continue-session.ts";
import type { RolloutRequests } from "../../rollout/requests.ts";
import { createTaskFiles, type TaskFiles } from "../../rollout/task-files.ts";
import { checked, createRouter, ok, takeFirst } from "../http/route.ts";
import { parseToolNames, type Bindings } from "../http/mcp-binding.ts";
import { bareNames } from "../../core/bare-names.ts";
import type { Described, JsonObject } from "./openapi.ts";
import { rolloutHandlers, rolloutRoutes } from "./rollout-routes.ts";
import { episodeRoutes, type Route } from "./routes.ts";
import { help, opened, sharedHandlers } from "./shared.ts";

export interface EpisodeRestOptions {
  sessions: Episodes;
  /** Models that can continue a session. Default: none, and /play is not served. */
  sessionPlayer?: SessionPlayer | undefined;
  /** Runs requests for rollouts. Default: none, and /v1/rollouts is not served. */
  requests?: RolloutRequests | undefined;
  /** Adds instructions for MCP clients to an opened session: how to reach it. Default: nothing is added. */
  bindings?: Bindings | undefined;
  /** The environment's tasks, for /v1/tasks. Default: none. */
  tasks?: TaskFiles | undefined;
}

export function episodeRouter(served: EpisodeRestOptions): Protocol["handle"] {
  const { sessions, sessionPlayer, requests, bindings, tasks = createTaskFiles(undefined) } = served;
  const models = sessionPlayer?.models ?? [];
  const { environment } = sessions;
  const rollouts = requests && createRouter(rolloutRoutes, rolloutHandlers(requests), help);
  const episodes = createRouter(
    episodeRoutes,
    {
      ...sharedHandlers(sessions, () => describeApi(environment, models, requests !== undefined)),
      environment: () => ok(describeEnvironment(environment)),
      listSplits: async () => ok({ splits: await tasks.splits() }),
      listTasks: async ({ id: split, query: { start, limit } }) => {
        const count = await tasks.count(split);
        const { items, more } = await takeFirst(tasks.rows(split, start), limit);
        return ok({ split, count, tasks: items, next: more ? start + items.length : null });
      },
      openSession: async ({ body: { random: randomSeed, tools, ...options } }) => {
        const allowed = parseToolNames(tools as string[] | undefined, environment.definitions);
        const info = await sessions.open({ ...options, randomSeed });
        return opened(bindings ? { ...info, mcp: bindings.address(info.session, allowed) } : info);
      },
      callTool: async ({ id, body: { tool, input, call, episode }, request: { signal } }) => {
        // A disconnect does not cancel a call with an id, because a retry with this id may follow and join the call.
        const options = call === undefined ? { episode, signal } : { episode, call };
        // Clients may show the answer to a model, so it does not contain the author's error. Only the event does.
        const { thrown: _, ...answer } = await sessions.call(id, tool, input, options);
        return ok(answer);
      },
      seedSession: async ({ id, body: { task, random: randomSeed, ...options } }) =>
        ok(await sessions.seed(id, task, { ...options, randomSeed })),
      // A disconnect does not cancel verify: the verdict is recorded, and a retry returns it.
      verifySession: async ({ id, body }) => {
        const response = bareNames(body.response, environment);
        return ok(await sessions.verify(id, { ...body, response }));
      },
      sessionRewards: async ({ id, request: { signal } }) =>
        ok({ session: id, rewards: await sessions.rewards(id, { signal }) }),
      playSession: async ({ id, body: { model, input, max_steps: maxSteps }, request: { signal } }) => {
        if (!sessionPlayer) throw new HoldfastError("not_found", "the server has no model; start it with --model");
        checked({ enum: models }, model, "model");
        const asked = input as string | unknown[] | undefined;
        return ok(await sessionPlayer.play(id, { model, input: asked, maxSteps, signal }));
      },
    },
    help,
  );
  return (request) => (rollouts && /^\/v1\/rollouts(?:\/|$)/.test(request.path) ? rollouts : episodes)(request);
}

/** Builds the reply to `GET /v1/environment`. */
function describeEnvironment(environment: AnyEnvironment) {
  const { name, description, unseeded, reseed, bestReward, task, state, definitions } = environment;
  const tools = [...definitions].map(([tool, { description, kind, input }]) => ({
    name: tool,
    description,
    kind,
    input: toInputSchema(toJsonSchema(input)),
  }));
  const schemas = { task: toJsonSchema(task), state: toJsonSchema(state) };
  return { name, description, tools, ...schemas, unseeded, reseed, bestReward };
}

/** A tool without input still takes an object as its arguments. */
function toInputSchema(schema: JsonObject): JsonObject {
  return Object.keys(schema).length > 0 ? schema : { type: "object" };
}

function describeApi(environment: AnyEnvironment, models: readonly string[], hasRollouts: boolean): Described {
  const { name, description, tools, task, state } = describeEnvironment(environment);
  const [first] = tools;
  const { playSession, ...episodes } = episodeRoutes;
  const others = hasRollouts ? { ...episodes, ...rolloutRoutes } : episodes;
  return {
    name,
    description,
    routes: models.length === 0 ? others : { ...others, playSession: withModels(playSession, models) },
    tools,
    schemas: { Task: task, EnvironmentState: state },
    examples: { task: sample(task), ...(first && { tool: first.name, input: sample(first.input) }) },
  };
}

function withModels(route: Route, models: readonly string[]): Route {
  const { properties = {} } = route.body ?? {};
  const model = { ...properties["model"], enum: models };
  return { ...route, body: { ...route.body, properties: { ...properties, model } } };
}
