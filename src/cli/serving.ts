// One serving process: its environments, agents, store and server, opened and closed together.
import { setTimeout as delay } from "node:timers/promises";
import type { Agent } from "../core/agent.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import { isHoldfastError } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import { serve, type Runner, type ServeOptions, type Serving } from "../server/serve.ts";
import type { Solution } from "../testing/environments.ts";
import { createAgents } from "../rollout/agents.ts";
import { preparing } from "../rollout/prepare.ts";
import { loadServed } from "../rollout/load.ts";
import { withModel } from "../models/by-name.ts";
import { offeredModels } from "../rollout/offered-models.ts";
import { createRequestPlayers } from "../queue/requests.ts";
import type { PlayerFor } from "../rollout/requests/playing.ts";
import { openStore } from "../stores/open.ts";
import { plainLine } from "./plain.ts";
import { endTelemetry, telemetry } from "../telemetry/process.ts";

export interface ServingFlags {
  port: number;
  host: string;
  store: string;
  cold?: string;
  coldAfter?: number;
  idle?: number;
  lease?: number;
  maxSessions?: number;
  log: "none" | "failures" | "all";
  token: string | undefined;
  allowOrigin?: string[];
  /** Plays the environments at /run. */
  model?: string;
  maxSteps?: number;
  timeout?: number;
  /** Maximum number of episodes of /v1/rollouts at once. */
  rollouts: number;
  allowModel?: string[];
  /** Queue from which workers take the rollouts of /v1/rollouts. */
  queue?: string;
  peers?: ServeOptions["peers"];
}

/** Milliseconds that a starting server waits for its store. The two are often started or restarted together. */
const storeTimeout = 30_000;

// Collectors send all rows of a data set at once, and abandon all of them if one is refused.
const mostRollouts = 50_000;

export async function open(targets: string[], flags: ServingFlags): Promise<Serving> {
  const { store: url, cold, coldAfter, log, allowOrigin: origins, model, maxSteps, timeout, ...others } = flags;
  const { rollouts: places, allowModel, queue, ...rest } = others;
  const environments: AnyEnvironment[] = [];
  const agents: Agent[] = [];
  const runners = new Map<string, Runner>();
  const solutions = new Map<string, Solution>();
  const located = new Map<string, string>();
  const elsewhere = new Map<string, PlayerFor>();
  let root: string | undefined;
  for (const target of targets) {
    const loaded = await loadServed(target);
    root ??= "agent" in loaded ? loaded.agent.name : loaded.environment.name;
    if ("agent" in loaded) {
      agents.push(model === undefined ? loaded.agent : await withModel(loaded.agent, model));
      continue;
    }
    const { environment, solution } = loaded;
    environments.push(environment);
    located.set(environment.name, target);
    if (queue !== undefined) elsewhere.set(environment.name, playersOn(queue, url, target, environment.name));
    if (solution) solutions.set(environment.name, solution);
    if (model === undefined) continue;
    const players = await createAgents(target, { model, seed: 0, ...(maxSteps !== undefined && { maxSteps }) });
    runners.set(environment.name, { agentFor: players.of, prepare: preparing(environment, players.name, {}), timeout });
  }
  const models = environments.length > 0 ? await offeredModels(solutions, model) : undefined;
  const store = await openStore(url, { cold, coldAfter });
  const end = async (): Promise<void> => {
    await store.close();
    await endTelemetry();
  };
  try {
    await reach(store);
    const secret = process.env["HOLDFAST_SECRET"];
    const serving = await serve({
      ...rest,
      environments,
      agents,
      root,
      models,
      store,
      origins,
      secret,
      log: { what: log },
      ...(places > 0 && { rollouts: { places, models: allowModel, targets: located, players: elsewhere } }),
      telemetry: await telemetry(),
      ...(model !== undefined && { runners, limits: { maxInflight: mostRollouts } }),
    });
    return {
      ...serving,
      async close() {
        await serving.close();
        await end();
      },
    };
  } catch (thrown) {
    await end();
    throw thrown;
  }
}

/** Plays the rollouts of requests on workers. */
function playersOn(queue: string, store: string, target: string, environment: string): PlayerFor {
  const say = (text: string): void => void process.stderr.write(`${plainLine(text)}\n`);
  return createRequestPlayers({ queue, store, target, environment, say });
}

/** Waits until the store can be reached. Any other failure is thrown immediately. */
async function reach(store: Store): Promise<void> {
  const deadline = Date.now() + storeTimeout;
  for (let isFirst = true; ; isFirst = false) {
    try {
      await store.read("holdfast:ready", 0, 1);
      return;
    } catch (thrown) {
      if (!isHoldfastError(thrown) || thrown.code !== "store_busy" || Date.now() > deadline) throw thrown;
      if (isFirst)
        process.stderr.write(`waiting for the store, for about ${storeTimeout / 1000} s: ${thrown.message}\n`);
      await delay(100);
    }
  }
}
