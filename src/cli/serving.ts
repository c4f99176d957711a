// What one serving process is made of: its environments, its store and its server, opened and closed together.
import { setTimeout as delay } from "node:timers/promises";
import { isHoldfastError } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import { serve, type Runner, type ServeOptions, type Serving } from "../serve.ts";
import { agentsOf } from "./collect/agents.ts";
import { preparing } from "./collect/prepare.ts";
import { load } from "./load.ts";
import { openStore } from "./store.ts";
import { endTelemetry, telemetry } from "./telemetry.ts";

interface ServingFlags {
  port: number;
  host: string;
  store: string;
  cold?: string;
  coldAfter?: number;
  idle?: number;
  maxSessions?: number;
  log: "none" | "failures" | "all";
  token: string | undefined;
  /** Plays the environments at /run. */
  model?: string;
  maxSteps?: number;
  timeout?: number;
  peers?: ServeOptions["peers"];
}

/** How long a server that starts waits for its store, in milliseconds. The two are often started, or started again, together. */
const storePatience = 30_000;

// Collectors send all rows of a data set at once, and give up on the whole of it when one is refused.
const mostRollouts = 50_000;

export async function open(targets: string[], flags: ServingFlags): Promise<Serving> {
  const { store: url, cold, coldAfter, log, model, maxSteps, timeout, ...rest } = flags;
  const environments = [];
  const runners = new Map<string, Runner>();
  for (const target of targets) {
    const { environment } = await load(target);
    environments.push(environment);
    if (model === undefined) continue;
    const agents = await agentsOf(target, { model, seed: 0, ...(maxSteps !== undefined && { maxSteps }) });
    runners.set(environment.name, { agentFor: agents.of, prepare: preparing(environment, agents.name, {}), timeout });
  }
  const store = await openStore(url, { cold, coldAfter });
  const end = async (): Promise<void> => {
    await store.close();
    await endTelemetry();
  };
  try {
    await reach(store);
    const secret = process.env["HOLDFAST_SECRET"];
    const serving = await serve({
      ...{ ...rest, environments, store, secret, log: { what: log }, telemetry: await telemetry() },
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

/** Waits until the store can be reached. What else is wrong with it is said at once. */
async function reach(store: Store): Promise<void> {
  const deadline = Date.now() + storePatience;
  for (let isFirst = true; ; isFirst = false) {
    try {
      await store.read("holdfast:ready", 0, 1);
      return;
    } catch (thrown) {
      if (!isHoldfastError(thrown) || thrown.code !== "store_busy" || Date.now() > deadline) throw thrown;
      if (isFirst)
        process.stderr.write(`waiting for the store, for about ${storePatience / 1000} s: ${thrown.message}\n`);
      await delay(100);
    }
  }
}
