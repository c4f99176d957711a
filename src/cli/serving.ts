// One serving process: its environments, agents, store and server, opened and closed together.
import type { Agent } from "../core/agent.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import { serve, type Runner, type ServeOptions, type Serving } from "../server/serve.ts";
import type { Solution } from "../testing/environments.ts";
import { createAgents } from "../rollout/agents.ts";
import { preparing } from "../rollout/prepare.ts";
import { loadServed } from "../rollout/load.ts";
import type { Json } from "../core/json.ts";
import { modelNamed, withModel } from "../models/by-name.ts";
import type { ProxiedModel } from "../protocols/model-proxy.ts";
import { offeredModels } from "../rollout/offered-models.ts";
import { createRequestPlayers } from "../queue/requests.ts";
import type { PlayerFor } from "../rollout/requests/playing.ts";
import { openStore, reachStore } from "../stores/open.ts";
import { plainLine } from "../io/plain.ts";
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
  /** The model that runs episodes at /run, and replaces the model of agents. */
  model?: string;
  maxSteps?: number;
  timeout?: number;
  /** Maximum number of concurrent episodes of /v1/rollouts. */
  rollouts: number;
  allowModel?: string[];
  /** URL of the queue from which workers take the episodes of /v1/rollouts. */
  queue?: string;
  /** The folder of ADK's web UI. */
  adkWeb?: string;
  peers?: ServeOptions["peers"];
  /** The model that answers the requests of harnesses. */
  proxy?: string;
  proxyRequest?: { [field: string]: Json };
  proxyCalls?: number;
  proxyTokens?: number;
  proxyTime?: number;
  proxyCost?: number;
}

/** Milliseconds that a starting server waits for its store, because both are often started together. */
const storeTimeout = 30_000;

// The limit is high because collectors send all rows of a data set simultaneously, and give up if one is refused.
const mostRollouts = 50_000;

export async function open(targets: string[], flags: ServingFlags): Promise<Serving> {
  const { store: url, cold, coldAfter, log, allowOrigin: origins, model, maxSteps, timeout, ...others } = flags;
  const { rollouts: places, allowModel, queue, host, port, idle, lease, maxSessions, token, adkWeb, peers } = others;
  const proxied = await proxiedModel(flags);
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
    await reachStore(store, storeTimeout, (why) =>
      process.stderr.write(`waiting up to ${storeTimeout / 1000} s for the store: ${why}\n`),
    );
    const secret = process.env["HOLDFAST_SECRET"];
    const serving = await serve({
      host,
      port,
      idle,
      lease,
      maxSessions,
      token,
      adkWeb,
      peers,
      environments,
      agents,
      root,
      models,
      store,
      origins,
      secret,
      log: { what: log },
      targets: located,
      ...(places > 0 && { rollouts: { places, models: allowModel, players: elsewhere } }),
      proxy: proxied && (() => proxied),
      telemetry: await telemetry(),
      ...(model !== undefined && { runners }),
      limits: { ...(proxied && { body: proxiedBody }), ...(model !== undefined && { maxInflight: mostRollouts }) },
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

/** Maximum size of a body in bytes with --proxy. Conversations of harnesses are long, and contain pictures. */
const proxiedBody = 8 * 1024 * 1024;

/** Returns the model of --proxy with its limits; undefined without --proxy. */
async function proxiedModel(flags: ServingFlags): Promise<ProxiedModel | undefined> {
  const { proxy, proxyRequest: settings, proxyCalls: calls, proxyTokens: tokens, proxyCost: cost } = flags;
  if (proxy === undefined) return undefined;
  const seconds = flags.proxyTime === undefined ? undefined : flags.proxyTime / 1000;
  return { model: await modelNamed(proxy), settings, limits: { calls, tokens, seconds, cost } };
}

/** Creates players that put the episodes of /v1/rollouts into the queue for workers. */
function playersOn(queue: string, store: string, target: string, environment: string): PlayerFor {
  const say = (text: string): void => void process.stderr.write(`${plainLine(text)}\n`);
  return createRequestPlayers({ queue, store, target, environment, say });
}
