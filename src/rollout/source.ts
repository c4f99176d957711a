// openPlaySource(): opens the target of a collection: an environment in this process, a gym server, or a remote agent.
import { createGymClient, defaultTimeout, type GymClient } from "./gym-client.ts";
import { createAgentPlayer } from "./play/agent-player.ts";
import { gymnasiumHost } from "./play/gymnasium-host.ts";
import { rowForServer, serverHost } from "./play/server-host.ts";
import { readCut } from "./play/failure.ts";
import { createPlayer, createPlayerOn, type PlayerOptions } from "./play/player.ts";
import { withStepRewards } from "./play/step-rewards.ts";
import type { AgentLimits } from "../core/agent.ts";
import { invalidOption, isHoldfastError } from "../core/errors.ts";
import type { Thrown } from "../core/event.ts";
import type { Model, ToolSchema } from "../core/model.ts";
import type { Play, Rollout, TaskRow } from "../core/rollout.ts";
import type { Store } from "../core/store.ts";
import { createSessions } from "../session/sessions.ts";
import { loadEnvironment } from "./load.ts";
import type { Telemetry } from "../telemetry/start.ts";
import { telemetry } from "../telemetry/process.ts";
import { isUrl, type SourceSettings, type Target } from "./collection-settings.ts";
import { createAgents, type Agents } from "./agents.ts";
import { preparing, toldRow } from "./prepare.ts";
import { assertInstalled, isBuiltIn } from "./harness/launch.ts";
import { forHarness } from "./harness/local-model.ts";
import { createHarnessPlayer } from "./harness/player.ts";
import type { HarnessServer } from "./harness/server.ts";

export interface Source {
  /** The environment's name in the record. */
  environment: string;
  /** The agent's name in rows. */
  agent: string;
  /** Prepares a row. Throws when the row is invalid. */
  prepare(row: TaskRow): TaskRow | Promise<TaskRow>;
  /** Creates the player. `onEvent`: called with the events of conversations in this process. */
  player(store: Store, observer?: PlayObserver): Player;
  /** The default store; undefined for a file next to the rows. */
  store?: string;
}

export type OnEvent = NonNullable<PlayerOptions["onEvent"]>;

interface PlayObserver {
  onEvent?: OnEvent | undefined;
  /** Called with the errors that the author's code throws. */
  onError?: ((error: Thrown) => void) | undefined;
}

export interface Player {
  play: Play;
  /** Returns the author's code that was running when a rollout was interrupted; undefined if unknown. */
  readCut?(rollout: Rollout): Promise<string | undefined>;
  /** Waits for running rollouts. `isOver`: nobody will continue the collection, so rollouts elsewhere end too. */
  stop(isOver?: boolean): Promise<void>;
}

/** A player's settings. Collections limit only the steps, and add step rewards later. */
export interface PlayedSettings extends SourceSettings {
  limits?: AgentLimits;
  /** Whether to add the reward at every version to scored rows. */
  stepRewards?: boolean;
}

export async function openPlaySource(
  target: Target | undefined,
  flags: PlayedSettings,
  harnessServer?: HarnessServer,
): Promise<Source> {
  if (flags.harness !== undefined) return harnessSource(target as Target, flags, flags.harness, harnessServer);
  if (isUrl(flags.agent)) return agentSource(flags.agent, flags);
  if (flags.server !== undefined) return serverSource(flags.server, target, flags);
  return environmentSource(target as Target, flags);
}

async function environmentSource(target: Target, flags: PlayedSettings): Promise<Source> {
  const environment = typeof target === "string" ? await loadEnvironment(target) : target;
  const traces = await telemetry();
  const agents = await createAgents(target, flags);
  return {
    environment: environment.name,
    agent: agents.name,
    prepare: preparing(environment, agents.name, flags),
    player(store, { onEvent, onError } = {}) {
      const reported = onError && { onError };
      const engine = createSessions({ environment, store, ...reported });
      const episodes = traces?.sessions(engine) ?? engine;
      const sessions = createSessions({ app: "rollouts", store, cache: cacheFor(flags), ...reported });
      const agentFor = tracedAgents(agents.of, traces);
      const played = createPlayer({ sessions, episodes, agentFor, timeout: flags.timeout, onEvent });
      const play = flags.stepRewards ? withStepRewards(episodes, played) : played;
      return {
        play: traces?.play(play) ?? play,
        readCut: (rollout) => readCut(sessions, rollout),
        async stop() {
          await episodes.stop();
          await sessions.stop();
        },
      };
    },
  };
}

async function harnessSource(
  target: Target,
  flags: PlayedSettings,
  harness: string,
  server: HarnessServer | undefined,
): Promise<Source> {
  if (!server) throw invalidOption("a harness needs a server; pass `harnessServer`, or use `holdfast collect`");
  assertInstalled(harness);
  const environment = typeof target === "string" ? await loadEnvironment(target) : target;
  const traces = await telemetry();
  const agents = await createAgents(target, flags);
  const name = flags.agentName ?? (isBuiltIn(harness) ? harness : "harness");
  return {
    environment: environment.name,
    agent: name,
    prepare: preparing(environment, name, flags),
    player(store, { onError } = {}) {
      const engine = createSessions({ environment, store, ...(onError && { onError }) });
      const episodes = traces?.sessions(engine) ?? engine;
      const { maxSteps, maxTotalTokens, maxCost, timeout, harnessEnv: passed } = flags;
      const limits = { tokens: maxTotalTokens, cost: maxCost };
      const modelFor = (rollout: Rollout): Model => {
        const { model } = traces?.agent(agents.of(rollout)) ?? agents.of(rollout);
        return model.name === "scripted" || model.name === "random" ? forHarness(model, environment) : model;
      };
      const player = createHarnessPlayer({
        harness,
        server,
        episodes,
        store,
        modelFor,
        maxSteps,
        limits,
        timeout,
        passed,
      });
      return {
        play: traces?.play(player.play) ?? player.play,
        async stop() {
          await player.stop();
          await episodes.stop();
        },
      };
    },
  };
}

/** Milliseconds that a remote agent may take for an episode if --timeout is not set: four hours. */
const wholeEpisode = 4 * 3_600_000;

/** Opens a client. A reply may take longer than the episode, so that the episode's own failure is reported first. */
function openClient(url: string, flags: SourceSettings, none: number, traces: Telemetry | undefined): GymClient {
  const { timeout = 0, replyTimeout = Math.max(none, timeout + 60_000), replyIdle, maxReply } = flags;
  const largest = maxReply === undefined ? undefined : maxReply * 1024 * 1024;
  return createGymClient(url, { headers: traces?.headers, timeout: replyTimeout, idle: replyIdle, largest });
}

async function serverSource(url: string, target: Target | undefined, flags: SourceSettings): Promise<Source> {
  const traces = await telemetry();
  const [, gymnasium = "", address = url] = /^(gymnasium\+)(.*)$/.exec(url) ?? [];
  const client = openClient(address, flags, defaultTimeout, traces);
  const host = gymnasium ? gymnasiumHost(client) : serverHost(client);
  const agents = await createAgents(target, flags);
  const tools = await toolsTold(client);
  return {
    environment: gymnasium + client.root,
    agent: agents.name,
    prepare: (row) => toldRow(row, rowForServer(row, tools), { agent: agents.name, flags }),
    player(store, { onEvent, onError } = {}) {
      const sessions = createSessions({ app: "rollouts", store, cache: cacheFor(flags), ...(onError && { onError }) });
      const agentFor = tracedAgents(agents.of, traces);
      const play = createPlayerOn(host, { sessions, agentFor, timeout: flags.timeout, onEvent });
      return { play: traces?.play(play) ?? play, stop: () => sessions.stop() };
    },
  };
}

async function agentSource(url: string, flags: SourceSettings): Promise<Source> {
  const { agentName: agent = "agent" } = flags;
  const traces = await telemetry();
  const client = openClient(url, flags, flags.timeout === undefined ? wholeEpisode : 0, traces);
  await toolsTold(client);
  return {
    // Nothing is stored in this process, because the episode runs on another server.
    environment: client.root,
    agent,
    store: "memory:",
    prepare: (row) => toldRow(row, row, { agent, flags }),
    player() {
      const play = createAgentPlayer({ client, timeout: flags.timeout });
      return { play: traces?.play(play) ?? play, stop: () => Promise.resolve() };
    },
  };
}

function tracedAgents(agentFor: Agents["of"], traces: Telemetry | undefined): Agents["of"] {
  return traces ? (rollout) => traces.agent(agentFor(rollout)) : agentFor;
}

/** Contacts the server, so that an unreachable server fails early. Only Holdfast's servers list tools. */
async function toolsTold(client: GymClient): Promise<ToolSchema[] | undefined> {
  try {
    return await client.tools();
  } catch (thrown) {
    if (isHoldfastError(thrown) && thrown.code === "invalid_agent") return undefined;
    throw thrown;
  }
}

/** Conversations are cached only while they run, because finished conversations are not read again. */
const cacheFor = ({ concurrency }: SourceSettings): { sessions: number } => ({ sessions: concurrency });
