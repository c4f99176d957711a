// createAgents(): builds the agent for each rollout: a plain agent or the author's agent, with the requested model.
import { defineAgent } from "../agent/define-agent.ts";
import type { AgentLimits, ModelAgent } from "../core/agent.ts";
import { invalidOption } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { Model } from "../core/model.ts";
import type { Rollout } from "../core/rollout.ts";
import { loadAgent, loadSolution } from "./load.ts";
import { modelNamed } from "../models/by-name.ts";
import type { CollectionSettings, Target } from "./collection-settings.ts";
import { solutionModel } from "./solution-model.ts";

type AgentFlags = Pick<CollectionSettings, "agent" | "agentName" | "model" | "seed" | "maxSteps"> & {
  limits?: AgentLimits;
};

export interface Agents {
  /** The agent's name in rows. */
  name: string;
  of(rollout: Rollout): ModelAgent;
}

export async function createAgents(target: Target | undefined, flags: AgentFlags): Promise<Agents> {
  const given = typeof flags.agent === "string" ? await loadAgent(flags.agent) : flags.agent;
  if (given && given.kind !== "model") {
    throw invalidOption(`--agent must be an agent from defineAgent; ${given.name} is a ${given.kind} of agents`);
  }
  const modelFor = await chooseModels(target, given, flags);
  const limits = { ...flags.limits, ...(flags.maxSteps !== undefined && { steps: flags.maxSteps }) };
  const name = given?.name ?? "agent";
  return {
    name: flags.agentName ?? name,
    of(rollout) {
      const model = modelFor(rollout);
      if (given) return { ...given, model, limits: { ...given.limits, ...limits } };
      const { instructions } = Object(rollout.row["responses_create_params"]) as { instructions?: Json };
      const instruction = typeof instructions === "string" ? () => instructions : "";
      return defineAgent({ name, model, instruction, limits });
    },
  };
}

async function chooseModels(
  target: Target | undefined,
  given: ModelAgent | undefined,
  { model: name, seed }: AgentFlags,
): Promise<(rollout: Rollout) => Model> {
  if (typeof name !== "string") return () => name;
  if (name !== "scripted") {
    const model = await modelNamed(name, seed);
    // The random model's answers depend only on the request, so each repeat needs a request that differs. All attempts
    // at a rollout get the same answers.
    return name.startsWith("random") ? (rollout) => withField(model, rollout) : () => model;
  }
  if (given) return () => given.model;
  const solution = typeof target === "string" ? await loadSolution(target) : undefined;
  if (solution) return ({ row }) => solutionModel(solution, row);
  if (target === undefined) throw invalidOption("a server has no solution for the scripted model; choose a --model");
  throw invalidOption(
    "the scripted model needs a solution.ts next to the environment; add one, or choose another --model",
  );
}

function withField(model: Model, { task, repeat, origin }: Rollout): Model {
  const branch = origin ? `-${origin.branch}` : "";
  // The 0 was once the attempt number. It stays, so that collections from version 0.1 resume with the same answers.
  const metadata = { rollout: `${task}-${repeat}-0${branch}` };
  return { name: model.name, respond: (request, options) => model.respond({ ...request, metadata }, options) };
}
