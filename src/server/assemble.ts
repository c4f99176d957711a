// assemble(): builds the app that serves environments and agents: engines, protocols, tokens, metrics and the viewer.
// serve() listens with it, and mount() gives it to another server.
import { createSessionPlayer, type ModelFor, type SessionPlayer } from "../rollout/play/continue-session.ts";
import { createPlayer } from "../rollout/play/player.ts";
import { run } from "../agent/run.ts";
import type { Agent, ModelAgent } from "../core/agent.ts";
import type { Conversations, Sessions } from "../core/sessions.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import { invalidOption } from "../core/errors.ts";
import { isReservedPath } from "../core/reserved-names.ts";
import type { Protocol } from "../core/protocol.ts";
import type { Play, Rollout, TaskRow } from "../core/rollout.ts";
import type { Collection } from "../rollout/collection-view.ts";
import type { Store } from "../core/store.ts";
import { a2aProtocol } from "../protocols/a2a.ts";
import { adkPath, adkProtocol } from "../protocols/adk.ts";
import { gymProtocol } from "../protocols/gym.ts";
import { gymnasiumProtocol } from "../protocols/gymnasium.ts";
import { gymGuard } from "../protocols/gym/guard.ts";
import type { ServedAgent } from "../protocols/http/running.ts";
import { createBindings, mcpProtocol } from "../protocols/mcp.ts";
import { modelProxy, type ProxiedModel } from "../protocols/model-proxy.ts";
import { openaiProtocol } from "../protocols/openai.ts";
import { openEnvProtocol } from "../protocols/openenv.ts";
import { orsProtocol, type OrsEnvironment } from "../protocols/ors.ts";
import { restProtocol } from "../protocols/rest.ts";
import { agentRoutes } from "../protocols/rest/openapi.ts";
import { runProtocol } from "../protocols/run-rollout.ts";
import { createTaskFiles } from "../rollout/task-files.ts";
import { createPlaces } from "../rollout/places.ts";
import { createRolloutRequests } from "../rollout/requests.ts";
import type { PlayerFor } from "../rollout/requests/playing.ts";
import { collectionsProtocol } from "../protocols/collections.ts";
import type { OfferedModels } from "../rollout/offered-models.ts";
import { readPoints } from "../rollout/curve.ts";
import type { Curve } from "../rollout/curve-series.ts";
import { aggregate } from "../rollout/metrics.ts";
import { createApp, type App, type Mount } from "./app.ts";
import { forUsers } from "./for-users.ts";
import type { Limits } from "./limits.ts";
import { createLog, type LogOptions } from "./log.ts";
import { createMetrics, observedSessions, observedStore, type MetricsReport } from "./metrics.ts";
import { createTokens, keysFromSecret, keysFromStore } from "./tokens.ts";
import { createUserTokens, type UserTokens } from "./user-tokens.ts";
import { packageVersion } from "./version.ts";
import { adkWebFiles, viewerFiles, viewerFolder } from "./viewer.ts";
import { createSessions } from "../session/sessions.ts";
import { memoryStore } from "../stores/memory.ts";
import type { Telemetry } from "../telemetry/start.ts";

export interface ServedOptions {
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
  /** Milliseconds without a call after which a session ends. Default: never. */
  idle?: number | undefined;
  /** Milliseconds without a commit after which other servers may continue a server's turn. Default 15,000. */
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
  /**
   * For each environment name: the folder, file or package with its tasks and its solution. Default: requests must
   * contain tasks.
   */
  targets?: ReadonlyMap<string, string> | undefined;
  /** Runs rollouts that clients ask for at /v1/rollouts. Default: they are not served. */
  rollouts?: ServedRollouts | undefined;
  /**
   * Models that can continue a session, by name. A model that returns undefined for an environment is not offered
   * there.
   */
  models?: OfferedModels | undefined;
  /** The models that answer the harnesses of sessions, by environment and session. Default: no model is served. */
  proxy?: ((environment: string, session: string) => ProxiedModel | undefined) | undefined;
  /** For a process that shares its port: collects the other processes' metrics, for /metrics. */
  peers?: ((own: MetricsReport) => Promise<MetricsReport[]>) | undefined;
  /** Collections to show in the viewer. With at least one, an environment is optional. */
  collections?: readonly Collection[] | undefined;
  /** The folder of ADK's web UI, `dist/browser` of the package @google/adk-devtools. Default: not served. */
  adkWeb?: string | undefined;
  /** Folders of training runs, whose curves the viewer shows. */
  training?: readonly string[] | undefined;
  /** Environments known only by name: their sessions can be read but not called. */
  bare?: ReadonlySet<string> | undefined;
  /** Traces requests, calls and rollouts. The caller starts and stops it, and uses it to trace the store. */
  telemetry?: Telemetry | undefined;
}

/** The names of all options, to refuse a misspelt one: a misspelt `token` would leave the server open. */
export const servedOptions: Record<keyof ServedOptions, true> = {
  environments: true,
  agents: true,
  root: true,
  store: true,
  idle: true,
  lease: true,
  maxSessions: true,
  log: true,
  token: true,
  origins: true,
  secret: true,
  limits: true,
  runners: true,
  targets: true,
  rollouts: true,
  models: true,
  proxy: true,
  peers: true,
  collections: true,
  adkWeb: true,
  training: true,
  bare: true,
  telemetry: true,
};

export interface Runner {
  /** Returns the agent for a rollout. The environment's tools are added to it. */
  agentFor(rollout: Rollout): ModelAgent;
  /** Prepares a row. Throws when the row is invalid. */
  prepare(row: TaskRow): TaskRow | Promise<TaskRow>;
  /** Time limit of a rollout in milliseconds. */
  timeout?: number | undefined;
}

export interface ServedRollouts {
  /** Maximum number of concurrent episodes, for all requests together. */
  places: number;
  /** URLs of models that requests may name, in addition to models on this machine. Default: none. */
  models?: readonly string[] | undefined;
  /** For each environment name: runs its rollouts elsewhere, for example on a queue. Default: in this process. */
  players?: ReadonlyMap<string, PlayerFor> | undefined;
}

/** An app without a port. */
export interface Assembled {
  app: App;
  userToken: UserTokens["issue"];
  /** Refuses new work in all engines and waits for running work. With `within`, cancels it after that time. */
  stop(within?: number): Promise<void>;
  /** Finishes requests with `finish` and then stops. Work that takes longer than a minute is cancelled. */
  close(finish: () => Promise<void>): Promise<void>;
}

/** Milliseconds that running calls and runs have to finish at a close before they are cancelled. */
const closeGrace = 60_000;

/** The app name for rollouts' conversations, whether this server or `collect` runs them. */
const rolloutsApp = "rollouts";

/** Builds the app. `at`: the path below which another server serves it. */
export async function assemble(options: ServedOptions & { at?: string }): Promise<Assembled> {
  const { environments, idle, maxSessions, token, secret, peers, telemetry, at = "" } = options;
  const { collections = [], bare = new Set<string>(), agents = [], models = new Map<string, never>() } = options;
  const { training = [] } = options;
  const served = [...environments, ...agents];
  const root = options.root ?? served[0]?.name;
  if (root === undefined && collections.length === 0 && training.length === 0) {
    throw invalidOption("nothing to serve: name at least one environment or agent");
  }
  // Cookie names contain "_" for "-", so names that differ only in these characters are refused.
  const names = served.map(({ name }) => name.replaceAll("-", "_"));
  const twice = names.findIndex((name, index) => names.indexOf(name) !== index);
  if (twice >= 0) {
    const two = twice < environments.length ? "two environments" : "two agents, or an agent and an environment,";
    throw invalidOption(`${two} are called ${served[twice]?.name}`);
  }
  // A name must not be a path at the root. The root environment's tools are such paths too.
  const first = environments.find(({ name }) => name === root);
  const taken = served.find(({ name }) => isReservedPath(name) || first?.definitions.has(name));
  if (taken) {
    const what = "definitions" in taken ? "an environment" : "an agent";
    const message = `${what} called ${taken.name} cannot be served: the server already uses the path /${taken.name}; choose another name`;
    throw invalidOption(message);
  }
  if (agents.some(({ name }) => name === rolloutsApp)) {
    const message = `an agent called ${rolloutsApp} cannot be served: Holdfast stores rollout conversations under that name; rename it`;
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
  const keys = secret ? keysFromSecret(secret) : await keysFromStore(store);
  const tokens = createTokens(keys);
  const userTokens = createUserTokens(keys);
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
    const player = createPlayer({ sessions: conversations, episodes, agentFor, timeout });
    const play: Play = async (rollout, signal) => {
      const played = await player(rollout, signal);
      // Every request starts a new conversation, so nothing continues a failed or cancelled one.
      if (played.outcome === "failed") await conversations.close(rollout.session).catch(() => false);
      return played;
    };
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
    const { models, players } = rollouts;
    const [target, playerFor] = [options.targets?.get(name), players?.get(name)];
    const played = { store, episodes, sessions: conversations, target, places, models, playerFor, telemetry };
    const onError = (thrown: unknown): void => log.error("a rollout request failed to run", thrown);
    return createRolloutRequests({ ...played, ...lease, onError });
  });
  const guard = gymGuard(tokens);
  const { proxy } = options;
  const version = packageVersion();
  const ors: OrsEnvironment[] = [];
  const mounts: Mount[] = engines.map((sessions, index) => {
    const { name } = sessions.environment;
    // An environment known only by name has no tools, so MCP clients cannot use it.
    const bindings = bare.has(name) ? undefined : createBindings(name, tokens, { hasModel: proxy !== undefined, at });
    const tasks = createTaskFiles(options.targets?.get(name));
    const gym = gymProtocol({ sessions, tokens, bindings, aggregate });
    const served = bindings && { sessions, bindings, tasks };
    if (served) ors[name === root ? "unshift" : "push"](served);
    const modelFor = proxy && ((session: string) => proxy(name, session));
    return {
      prefix: `/${name}`,
      protocols: [
        guard,
        ...played(sessions),
        ...(bindings && modelFor ? [modelProxy({ sessions, bindings, modelFor })] : []),
        ...(served
          ? [
              openEnvProtocol(served),
              orsProtocol({ environments: [served], version }),
              mcpProtocol({ ...served, version }),
            ]
          : []),
        gymnasiumProtocol({ gym, environment: sessions.environment }),
        gym,
        restProtocol({ sessions, bindings, sessionPlayer: sessionPlayer(sessions), requests: requests[index], tasks }),
      ],
    };
  });
  const servedAgents = conversing.map((sessions, index): ServedAgent => {
    const agent = agents[index] as Agent;
    const traced = telemetry?.agent(agent) ?? agent;
    return {
      agent,
      sessions,
      run(asked) {
        const running = run(traced, asked);
        return telemetry?.run(agent.name, running) ?? running;
      },
    };
  });
  // Without a server token, no user tokens are issued: everyone on this machine can use every conversation.
  const issueToken = token === undefined ? undefined : userTokens.issue;
  for (const each of servedAgents) {
    const prefix = `/${each.agent.name}`;
    const about = { at: at + prefix, version, isGuarded: token !== undefined };
    const wire = (create: (one: ServedAgent) => Protocol): Protocol =>
      forUsers([each], ([one]) => create(one as ServedAgent));
    const wires = [
      wire((one) => a2aProtocol({ ...one, ...about })),
      wire(openaiProtocol),
      wire((one) => restProtocol({ ...one, issueToken, others: agentRoutes })),
    ];
    mounts.push({ prefix, protocols: [guard, ...wires] });
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
  if (options.adkWeb !== undefined) own.push(adkWebFiles(options.adkWeb, adkPath, at));
  own.push(guard);
  if (ors.length > 0) own.push(orsProtocol({ environments: ors, version }));
  if (servedAgents.length > 0) own.push(forUsers(servedAgents, (agents) => adkProtocol({ agents, version })));
  mounts.push({
    prefix: "",
    protocols: [...own, ...(mounts.find(({ prefix }) => prefix === `/${root}`)?.protocols ?? [])],
  });
  const access = { token, origins: options.origins, userOf: userTokens.check };
  const app = createApp({ mounts, at, store, metrics, log, ...access, peers });
  const stop = async (within?: number): Promise<void> => {
    await Promise.all(requests.map((each) => each?.stop()));
    const options = within === undefined ? {} : { within };
    await Promise.all([...engines, ...conversing, conversations].map((engine) => engine.stop(options)));
  };
  return {
    app: telemetry?.requests(app) ?? app,
    userToken: userTokens.issue,
    stop,
    async close(finish) {
      // Cancels requests that do not finish, for example because a handler hangs.
      const timer = setTimeout(() => void stop(0), closeGrace);
      await finish();
      clearTimeout(timer);
      await stop(closeGrace);
    },
  };
}
