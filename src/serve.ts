// serve(): environments behind an HTTP server. Wires engines, protocols, tokens, metrics and the host together.
import { createPlayer } from "./agent/play.ts";
import type { ModelAgent } from "./core/agent.ts";
import type { AnyEnvironment } from "./core/environment.ts";
import { HoldfastError } from "./core/errors.ts";
import type { Protocol } from "./core/protocol.ts";
import type { Rollout, TaskRow } from "./core/rollout.ts";
import type { Sessions } from "./core/sessions.ts";
import type { Store } from "./core/store.ts";
import { gymProtocol } from "./protocols/gym.ts";
import { restProtocol } from "./protocols/rest.ts";
import { runProtocol } from "./protocols/run.ts";
import { aggregate } from "./rollout/metrics.ts";
import { createApp, type Mount } from "./server/app.ts";
import { listen } from "./server/host.ts";
import type { Limits } from "./server/limits.ts";
import { createLog, type LogOptions } from "./server/log.ts";
import { createMetrics, observedSessions, observedStore, type MetricsReport } from "./server/metrics.ts";
import { createTokens, keysFromSecret, keysFromStore } from "./server/tokens.ts";
import { createAgentSessions } from "./session/agent-sessions.ts";
import { createSessions } from "./session/sessions.ts";
import type { Telemetry } from "./telemetry/start.ts";

export interface ServeOptions {
  /** Each is served under "/NAME", the first one also at the root. */
  environments: AnyEnvironment[];
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
  /** For a process behind the same port as others: what those have counted, for /metrics. */
  peers?: ((own: MetricsReport) => Promise<MetricsReport[]>) | undefined;
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

/** What is served at the root besides tools. */
const ownNames = [
  ...["v1", "ng-rollout", "metrics", "healthz", "readyz", "docs"],
  ...["seed_session", "verify", "close_session", "aggregate_metrics", "reverify_mode", "run"],
];

export async function serve(options: ServeOptions): Promise<Serving> {
  const { environments, host = "127.0.0.1", port, idle, maxSessions, token, secret, peers, telemetry } = options;
  const [first] = environments;
  if (!first) throw new HoldfastError("invalid_option", "there is no environment to serve");
  // "-" and "_" are the same in the name of a cookie.
  const names = environments.map(({ name }) => name.replaceAll("-", "_"));
  const twice = environments.find((_, at) => names.indexOf(names[at] as string) !== at);
  if (twice) throw new HoldfastError("invalid_option", `two environments are called ${twice.name}`);
  // A path of the first one, which is at the root, would be in doubt.
  const paths = new Set([...ownNames, ...first.definitions.keys()]);
  const taken = environments.find(({ name }) => paths.has(name));
  if (taken) {
    const message = `an environment called ${taken.name} cannot be served: the server has that path`;
    throw new HoldfastError("invalid_option", message);
  }
  if (token !== undefined && !/^[\x21-\x7e]{8,}$/.test(token)) {
    const message = "the bearer token must have at least 8 characters, all of them printable ASCII and none a space";
    throw new HoldfastError("invalid_option", message);
  }

  const running = environments.find(({ name, definitions }) => options.runners?.has(name) && definitions.has("run"));
  if (running) {
    const message = `${running.name} cannot be played at /run: it has a tool of that name`;
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
  const conversations = createAgentSessions({ app: "rollouts", store });
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
  const mounts: Mount[] = engines.map((sessions) => ({
    prefix: `/${sessions.environment.name}`,
    protocols: [...played(sessions), gymProtocol({ sessions, tokens, aggregate }), restProtocol({ sessions })],
  }));
  mounts.push({ prefix: "", protocols: (mounts[0] as Mount).protocols });
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
    await Promise.all([...engines, conversations].map((engine) => engine.stop()));
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
