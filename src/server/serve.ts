// serve(): environments and agents behind an HTTP server. Wires engines, protocols, tokens, metrics and the host together.
import { createSessionPlayer, type ModelFor } from "../rollout/play/continue-session.ts";
import { createPlayer } from "../rollout/play/player.ts";
import { run } from "../agent/run.ts";
import type { Agent, ModelAgent } from "../core/agent.ts";
import type { AgentSessions } from "../core/agent-sessions.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import { HoldfastError } from "../core/errors.ts";
import { isReservedPath } from "../core/reserved-names.ts";
import type { SessionPlayer } from "../rollout/play/continue-session.ts";
import type { Protocol } from "../core/protocol.ts";
import type { Rollout, TaskRow } from "../core/rollout.ts";
import type { Run } from "../rollout/collection-view.ts";
import type { Sessions } from "../core/sessions.ts";
import type { Store } from "../core/store.ts";
import { agentProtocol } from "../protocols/agents.ts";
import { gymProtocol } from "../protocols/gym.ts";
import { restProtocol } from "../protocols/rest.ts";
import { runProtocol } from "../protocols/run-rollout.ts";
import { runsProtocol } from "../protocols/collections.ts";
import type { OfferedModels } from "../rollout/offered-models.ts";
import { aggregate } from "../rollout/metrics.ts";
import { createApp, type Mount } from "./app.ts";
import { listen } from "./host.ts";
import type { Limits } from "./limits.ts";
import { createLog, type LogOptions } from "./log.ts";
import { createMetrics, observedSessions, observedStore, type MetricsReport } from "./metrics.ts";
import { createTokens, keysFromSecret, keysFromStore } from "./tokens.ts";
import { packageVersion } from "./version.ts";
import { viewerFiles, viewerFolder } from "./viewer.ts";
import { createAgentSessions } from "../session/agent-sessions.ts";
import { createSessions } from "../session/sessions.ts";
import { memoryStore } from "../stores/memory.ts";
import type { Telemetry } from "../telemetry/start.ts";

export interface ServeOptions {
  /** Each is served under "/NAME". */
  environments: AnyEnvironment[];
  /** Each is served under "/NAME", too. */
  agents?: Agent[] | undefined;
  /** The name of what is also at the root. By default the first environment, or else the first agent. */
  root?: string | undefined;
  /** Where the logs live. Who opened it closes it. */
  store: Store;
  /** Default 127.0.0.1. */
  host?: string;
  /** 0 picks a free one. */
  port: number;
  /** Milliseconds after which a session that nobody calls is ended. By default never. */
  idle?: number | undefined;
  /** How many sessions of an environment may be open; the longest idle make room. By default any number. */
  maxSessions?: number | undefined;
  log?: LogOptions;
  /** What /v1 and /metrics want as a bearer token. By default nothing. */
  token?: string | undefined;
  /** Signs session tokens: the new key, and old ones that are still accepted, as "new,old". By default a key in the store. */
  secret?: string | undefined;
  limits?: Partial<Limits>;
  /** Who plays an environment, by its name, when a row is posted to /run. By default nobody, and /run is not served. */
  runners?: ReadonlyMap<string, Runner> | undefined;
  /** Who can go on with a session of an environment, by its name. Undefined: not with one of that environment. */
  models?: OfferedModels | undefined;
  /** For a process behind the same port as others: what those have counted, for /metrics. */
  peers?: ((own: MetricsReport) => Promise<MetricsReport[]>) | undefined;
  /** Files of rollouts that can be looked at. With some, there need be no environment. */
  runs?: readonly Run[] | undefined;
  /** The environments of which only the name is known: their sessions can be read, and not called. */
  bare?: ReadonlySet<string> | undefined;
  /** Traces requests, calls and rollouts. Who started it stops it, and has it trace the store. */
  telemetry?: Telemetry | undefined;
}

export interface Runner {
  /** The tools of the environment are added to it. */
  agentFor(rollout: Rollout): ModelAgent;
  /** Makes a row ready. Throws what is wrong with it. */
  prepare(row: TaskRow): TaskRow | Promise<TaskRow>;
  /** Milliseconds that a rollout may take. */
  timeout?: number | undefined;
}

export interface Serving {
  /** What this process has counted. */
  report(): Promise<MetricsReport>;
  /** Such as http://127.0.0.1:8080. */
  readonly url: string;
  /** Takes no new calls and finishes those in flight. A second close ends at once. The store stays open. */
  close(): Promise<void>;
}

/** The app whose conversations are those of rollouts, played here or collected into the same store. */
const rolloutsApp = "rollouts";

export async function serve(options: ServeOptions): Promise<Serving> {
  const { environments, host = "127.0.0.1", port, idle, maxSessions, token, secret, peers, telemetry } = options;
  const { runs = [], bare = new Set<string>(), agents = [], models = new Map<string, never>() } = options;
  const served = [...environments, ...agents];
  const root = options.root ?? served[0]?.name;
  if (root === undefined && runs.length === 0) {
    throw new HoldfastError("invalid_option", "there is no environment to serve, and no agent");
  }
  // "-" and "_" are the same in the name of a cookie.
  const names = served.map(({ name }) => name.replaceAll("-", "_"));
  const twice = names.findIndex((name, at) => names.indexOf(name) !== at);
  if (twice >= 0) {
    const two = twice < environments.length ? "two environments" : "two agents, or an agent and an environment,";
    throw new HoldfastError("invalid_option", `${two} are called ${served[twice]?.name}`);
  }
  // The root environment's tools are paths too.
  const first = environments.find(({ name }) => name === root);
  const taken = served.find(({ name }) => isReservedPath(name) || first?.definitions.has(name));
  if (taken) {
    const what = "definitions" in taken ? "an environment" : "an agent";
    const message = `${what} called ${taken.name} cannot be served: the server has that path`;
    throw new HoldfastError("invalid_option", message);
  }
  if (agents.some(({ name }) => name === rolloutsApp)) {
    const message = `an agent called ${rolloutsApp} cannot be served: it would have the conversations of rollouts`;
    throw new HoldfastError("invalid_option", message);
  }
  if (token !== undefined && !/^[\x21-\x7e]{8,}$/.test(token)) {
    const message = "the bearer token must have at least 8 characters, all of them printable ASCII and none a space";
    throw new HoldfastError("invalid_option", message);
  }

  const metrics = createMetrics();
  const store = observedStore(options.store, metrics);
  const tokens = createTokens(secret ? keysFromSecret(secret) : await keysFromStore(store));
  const limits = { ...(idle && { idle }), ...(maxSessions && { sessions: maxSessions }) };
  const engines = environments.map((environment) => {
    const engine = createSessions({ environment, store, limits });
    return observedSessions(telemetry?.sessions(engine) ?? engine, metrics);
  });
  const conversations = createAgentSessions({ app: rolloutsApp, store });
  const played = (episodes: Sessions): Protocol[] => {
    const runner = options.runners?.get(episodes.environment.name);
    if (!runner) return [];
    const { prepare, timeout } = runner;
    const agentFor: Runner["agentFor"] = telemetry
      ? (rollout) => telemetry.agent(runner.agentFor(rollout))
      : runner.agentFor;
    const play = createPlayer({ sessions: conversations, episodes, agentFor, timeout });
    return [runProtocol({ play: telemetry?.play(play) ?? play, prepare, newSession: () => episodes.newSession() })];
  };
  const sessionPlayer = (episodes: Sessions): SessionPlayer | undefined => {
    const { environment } = episodes;
    const offered = [...models].flatMap(([name, makes]): [string, ModelFor][] => {
      const made = bare.has(environment.name) ? undefined : makes(environment);
      return made ? [[name, made]] : [];
    });
    // What is said between the model and us is nobody else's: the calls are in the session.
    const scratch = (): AgentSessions => createAgentSessions({ app: "play", store: memoryStore() });
    return offered.length > 0 ? createSessionPlayer({ episodes, models: new Map(offered), scratch }) : undefined;
  };
  const conversing = agents.map(({ name }) => createAgentSessions({ app: name, store }));
  const mounts: Mount[] = engines.map((sessions) => ({
    prefix: `/${sessions.environment.name}`,
    protocols: [
      ...played(sessions),
      gymProtocol({ sessions, tokens, aggregate }),
      restProtocol({ sessions, sessionPlayer: sessionPlayer(sessions) }),
    ],
  }));
  for (const [at, sessions] of conversing.entries()) {
    const agent = agents[at] as Agent;
    const traced = telemetry?.agent(agent) ?? agent;
    mounts.push({
      prefix: `/${agent.name}`,
      protocols: [
        agentProtocol({
          agent,
          sessions,
          run(asked) {
            const running = run(traced, asked);
            return telemetry?.run(agent.name, running) ?? running;
          },
        }),
      ],
    });
  }
  const about = {
    version: packageVersion(),
    environments: environments.map(({ name, description }) => ({
      name,
      description,
      at: `/${name}`,
      bare: bare.has(name),
    })),
    agents: agents.map(({ name, description }) => ({ name, description, at: `/${name}` })),
    models: [...models.keys()],
  };
  const own = [runsProtocol({ about, runs }), viewerFiles(viewerFolder)];
  mounts.push({
    prefix: "",
    protocols: [...own, ...(mounts.find(({ prefix }) => prefix === `/${root}`)?.protocols ?? [])],
  });
  const log = createLog(options.log);
  const app = createApp({
    mounts,
    store,
    metrics,
    log,
    ...(token !== undefined && { token }),
    ...(peers && { peers }),
  });
  const stop = async (): Promise<void> => {
    await Promise.all([...engines, ...conversing, conversations].map((engine) => engine.stop()));
  };
  const listening = await listen(telemetry?.requests(app) ?? app, {
    host,
    port,
    ...(options.limits && { limits: options.limits }),
  }).catch(async (thrown: unknown) => {
    await stop();
    throw thrown;
  });
  return {
    url: listening.url,
    report: () => metrics.report(),
    async close() {
      await listening.close();
      await stop();
    },
  };
}
