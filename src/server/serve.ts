// serve(): serves environments and agents over HTTP. Wires engines, protocols, tokens, metrics and the host together.
import { createSessionPlayer, type ModelFor, type SessionPlayer } from "../rollout/play/continue-session.ts";
import { createPlayer } from "../rollout/play/player.ts";
import { run } from "../agent/run.ts";
import type { Agent, ModelAgent } from "../core/agent.ts";
import type { Conversations, Sessions } from "../core/sessions.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import { invalidOption } from "../core/errors.ts";
import { isReservedPath } from "../core/reserved-names.ts";
import type { Protocol } from "../core/protocol.ts";
import type { Rollout, TaskRow } from "../core/rollout.ts";
import type { Collection } from "../rollout/collection-view.ts";
import type { Store } from "../core/store.ts";
import { gymProtocol } from "../protocols/gym.ts";
import { gymGuard } from "../protocols/gym/guard.ts";
import { createBindings, mcpProtocol } from "../protocols/mcp.ts";
import { restProtocol } from "../protocols/rest.ts";
import { runProtocol } from "../protocols/run-rollout.ts";
import { createPlaces } from "../rollout/places.ts";
import { createRolloutRequests } from "../rollout/requests.ts";
import type { PlayerFor } from "../rollout/requests/playing.ts";
import { collectionsProtocol } from "../protocols/collections.ts";
import type { OfferedModels } from "../rollout/offered-models.ts";
import { readPoints } from "../rollout/curve.ts";
import type { Curve } from "../rollout/curve-series.ts";
import { aggregate } from "../rollout/metrics.ts";
import { createApp, type Mount } from "./app.ts";
import { listen } from "./host.ts";
import type { Limits } from "./limits.ts";
import { createLog, type LogOptions } from "./log.ts";
import { createMetrics, observedSessions, observedStore, type MetricsReport } from "./metrics.ts";
import { createTokens, keysFromSecret, keysFromStore } from "./tokens.ts";
import { packageVersion } from "./version.ts";
import { viewerFiles, viewerFolder } from "./viewer.ts";
import { createSessions } from "../session/sessions.ts";
import { memoryStore } from "../stores/memory.ts";
import type { Telemetry } from "../telemetry/start.ts";

export interface ServeOptions {
  /** Each environment is served under "/NAME". */
  environments: AnyEnvironment[];
  /** Each agent is served under "/NAME". */
  agents?: Agent[] | undefined;
  /**
   * Name of the environment or agent that is also served at the root. Default: the first environment, or else the first
   * agent.
   */
  root?: string | undefined;
  /** Holds the logs. The caller opens and closes it. */
  store: Store;
  /** Default 127.0.0.1. */
  host?: string;
  /** 0 picks a free port. */
  port: number;
  /** Milliseconds without a call after which a session ends. Default: never. */
  idle?: number | undefined;
  /** Milliseconds of silence after which other servers may continue a server's turn. Default 15,000. */
  lease?: number | undefined;
  /** Maximum open sessions per environment and agent; the longest idle sessions are ended first. Default: unlimited. */
  maxSessions?: number | undefined;
  /** Requests to log. Default: failures, to standard error. */
  log?: LogOptions;
  /** Bearer token required by /v1 and /metrics. Default: none. */
  token?: string | undefined;
  /** Origins of pages on other sites that may use the server, such as https://app.example. Default: none. */
  origins?: readonly string[] | undefined;
  /**
   * Keys for session tokens, as "new,old": the first signs, the others are still accepted. Default: a key kept in the
   * store.
   */
  secret?: string | undefined;
  /** Limits for requests. The defaults are in docs/operations.md. */
  limits?: Partial<Limits>;
  /** Runners by environment name, for rows posted to /run. Default: none, and /run is not served. */
  runners?: ReadonlyMap<string, Runner> | undefined;
  /** Plays rollouts that clients ask for at /v1/rollouts. Default: they are not served. */
  rollouts?: ServedRollouts | undefined;
  /**
   * Models that can continue a session, by name. A model that returns undefined for an environment is not offered
   * there.
   */
  models?: OfferedModels | undefined;
  /** For a process that shares its port: collects the other processes' metrics, for /metrics. */
  peers?: ((own: MetricsReport) => Promise<MetricsReport[]>) | undefined;
  /** Collections to show in the viewer. With at least one, an environment is optional. */
  collections?: readonly Collection[] | undefined;
  /** Folders of training runs, whose curves the viewer shows. */
  training?: readonly string[] | undefined;
  /** Environments known only by name: their sessions can be read but not called. */
  bare?: ReadonlySet<string> | undefined;
  /** Traces requests, calls and rollouts. The caller starts and stops it, and uses it to trace the store. */
  telemetry?: Telemetry | undefined;
}

export interface Runner {
  /** Returns the agent for a rollout. The environment's tools are added to it. */
  agentFor(rollout: Rollout): ModelAgent;
  /** Prepares a row. Throws when the row is invalid. */
  prepare(row: TaskRow): TaskRow | Promise<TaskRow>;
  /** Time limit of a rollout in milliseconds. */
  timeout?: number | undefined;
}

export interface ServedRollouts {
  /** Maximum number of episodes at once, for all requests together. */
  places: number;
  /** URLs of models that requests may name, besides models on this machine. Default: none. */
  models?: readonly string[] | undefined;
  /**
   * By environment name: the folder, file or package with its tasks and its solution. Default: requests bring tasks.
   */
  targets?: ReadonlyMap<string, string> | undefined;
  /** By environment name: plays rollouts elsewhere, for example on a queue. Default: in this process. */
  players?: ReadonlyMap<string, PlayerFor> | undefined;
}

export interface Serving {
  /** Returns the metrics of this process. */
  report(): Promise<MetricsReport>;
  /** For example http://127.0.0.1:8080. */
  readonly url: string;
  /** Refuses new calls and finishes calls in flight. A second close ends immediately. The store stays open. */
  close(): Promise<void>;
}

/** Milliseconds that running calls and runs have to finish at a close before they are cancelled. */
const closeGrace = 60_000;

/** The app name for rollouts' conversations, whether played here or collected into the same store. */
const rolloutsApp = "rollouts";

/**
 * Serves environments and agents over HTTP: the gym protocol, the REST API, metrics and the viewer.
 *
 * @example
 * const { url, close } = await serve({ environments: [counter], agents: [greeter], store: memoryStore(), port: 8080 });
 */
export async function serve(options: ServeOptions): Promise<Serving> {
  const { environments, host = "127.0.0.1", port, idle, maxSessions, token, secret, peers, telemetry } = options;
  const { collections = [], bare = new Set<string>(), agents = [], models = new Map<string, never>() } = options;
  const { training = [] } = options;
  const served = [...environments, ...agents];
  const root = options.root ?? served[0]?.name;
  if (root === undefined && collections.length === 0 && training.length === 0) {
    throw invalidOption("nothing to serve: name at least one environment or agent");
  }
  // Cookie names treat "-" and "_" as equal.
  const names = served.map(({ name }) => name.replaceAll("-", "_"));
  const twice = names.findIndex((name, at) => names.indexOf(name) !== at);
  if (twice >= 0) {
    const two = twice < environments.length ? "two environments" : "two agents, or an agent and an environment,";
    throw invalidOption(`${two} are called ${served[twice]?.name}`);
  }
  // The root environment's tools are paths too.
  const first = environments.find(({ name }) => name === root);
  const taken = served.find(({ name }) => isReservedPath(name) || first?.definitions.has(name));
  if (taken) {
    const what = "definitions" in taken ? "an environment" : "an agent";
    const message = `${what} called ${taken.name} cannot be served: the server uses that path itself; rename it`;
    throw invalidOption(message);
  }
  if (agents.some(({ name }) => name === rolloutsApp)) {
    const message = `an agent called ${rolloutsApp} cannot be served: the name is used for conversations of rollouts; rename it`;
    throw invalidOption(message);
  }
  if (token !== undefined && !/^[\x21-\x7e]{8,}$/.test(token)) {
    const message = "the bearer token must have at least 8 printable ASCII characters and no spaces";
    throw invalidOption(message);
  }

  const metrics = createMetrics();
  const log = createLog(options.log);
  const onError = log.thrown;
  const store = observedStore(options.store, metrics);
  const tokens = createTokens(secret ? keysFromSecret(secret) : await keysFromStore(store));
  const limits = { ...(idle && { idle }), ...(maxSessions && { sessions: maxSessions }) };
  const lease = options.lease === undefined ? {} : { lease: options.lease };
  const engines = environments.map((environment) => {
    const engine = createSessions({ environment, store, limits, onError });
    return observedSessions(telemetry?.sessions(engine) ?? engine, metrics);
  });
  const conversations = createSessions({ app: rolloutsApp, store, limits: { ...(idle && { idle }) }, onError });
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
    // The conversation with the model is private and discarded. Its calls are recorded in the session.
    const scratch = (): Conversations => createSessions({ app: "play", store: memoryStore() });
    return offered.length > 0 ? createSessionPlayer({ episodes, models: new Map(offered), scratch }) : undefined;
  };
  const conversing = agents.map((agent) =>
    createSessions({ app: agent.name, agent, store, limits, onError, ...lease }),
  );
  const { rollouts } = options;
  const places = createPlaces(rollouts?.places ?? 0);
  const requests = engines.map((episodes) => {
    const { name } = episodes.environment;
    if (!rollouts || bare.has(name)) return undefined;
    const { targets, models, players } = rollouts;
    const [target, playerFor] = [targets?.get(name), players?.get(name)];
    const played = { store, episodes, sessions: conversations, target, places, models, playerFor, telemetry };
    const onError = (thrown: unknown): void => log.error("a rollout request cannot be played", thrown);
    return createRolloutRequests({ ...played, ...lease, onError });
  });
  const guard = gymGuard(tokens);
  const version = packageVersion();
  const mounts: Mount[] = engines.map((sessions, at) => {
    const { name } = sessions.environment;
    // Environments known only by name have no tools.
    const bindings = bare.has(name) ? undefined : createBindings(name, tokens);
    return {
      prefix: `/${name}`,
      protocols: [
        guard,
        ...played(sessions),
        ...(bindings ? [mcpProtocol({ sessions, bindings, version })] : []),
        gymProtocol({ sessions, tokens, bindings, aggregate }),
        restProtocol({ sessions, bindings, sessionPlayer: sessionPlayer(sessions), requests: requests[at] }),
      ],
    };
  });
  for (const [at, sessions] of conversing.entries()) {
    const agent = agents[at] as Agent;
    const traced = telemetry?.agent(agent) ?? agent;
    mounts.push({
      prefix: `/${agent.name}`,
      protocols: [
        guard,
        restProtocol({
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
    version,
    environments: environments.map(({ name, description }) => ({
      name,
      description,
      at: `/${name}`,
      bare: bare.has(name),
    })),
    agents: agents.map(({ name, description }) => ({ name, description, at: `/${name}` })),
    models: [...models.keys()],
    ...(training.length > 0 && { hasCurves: true }),
  };
  const curves = (): Promise<Curve[]> =>
    Promise.all(training.map((folder) => readPoints(folder, "iteration", () => undefined)));
  const own = [collectionsProtocol({ about, collections, curves }), viewerFiles(viewerFolder)];
  mounts.push({
    prefix: "",
    protocols: [...own, ...(mounts.find(({ prefix }) => prefix === `/${root}`)?.protocols ?? [])],
  });
  const app = createApp({ mounts, store, metrics, log, token, origins: options.origins, peers });
  const stop = async (within?: number): Promise<void> => {
    await Promise.all(requests.map((each) => each?.stop()));
    const options = within === undefined ? {} : { within };
    await Promise.all([...engines, ...conversing, conversations].map((engine) => engine.stop(options)));
  };
  const where = { host, port, limits: options.limits };
  const listening = await listen(telemetry?.requests(app) ?? app, where).catch(async (thrown: unknown) => {
    await stop();
    throw thrown;
  });
  return {
    url: listening.url,
    report: () => metrics.report(),
    async close() {
      // A handler that hangs keeps its request open.
      const timer = setTimeout(() => void stop(0), closeGrace);
      await listening.close();
      clearTimeout(timer);
      await stop(closeGrace);
    },
  };
}
