// openPlaySource(): opens whatever a collection plays: an environment in this process, a gym server, or a remote agent.
import { createGymClient, defaultTimeout, type GymClient } from "./gym-client.ts";
import { createAgentPlayer } from "./play/agent-player.ts";
import { createServerPlayer, rowForServer } from "./play/server-player.ts";
import { readCut } from "./play/failure.ts";
import { createPlayer, type PlayerOptions } from "./play/player.ts";
import { withStepRewards } from "./play/step-rewards.ts";
import type { AgentLimits } from "../core/agent.ts";
import { isHoldfastError } from "../core/errors.ts";
import type { Thrown } from "../core/event.ts";
import type { ToolSchema } from "../core/model.ts";
import type { Play, Rollout, TaskRow } from "../core/rollout.ts";
import type { Store } from "../core/store.ts";
import { createSessions } from "../session/sessions.ts";
import { loadEnvironment } from "./load.ts";
import type { Telemetry } from "../telemetry/start.ts";
import { telemetry } from "../telemetry/process.ts";
import { isUrl, type SourceSettings, type Target } from "./collection-settings.ts";
import { createAgents, type Agents } from "./agents.ts";
import { preparing, toldRow } from "./prepare.ts";

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
  /** Returns which author's code was running when a rollout was cut short; undefined if that is unknown. */
  readCut?(rollout: Rollout): Promise<string | undefined>;
  /** Waits for running rollouts. */
  stop(): Promise<void>;
}

/** A player's settings. Collections have no limits besides the steps, and add step rewards later. */
export interface PlayedSettings extends SourceSettings {
  limits?: AgentLimits;
  /** Adds the reward at every version to scored rows. */
  stepRewards?: boolean;
}

export async function openPlaySource(target: Target | undefined, flags: PlayedSettings): Promise<Source> {
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

/** Milliseconds that a remote agent may take for an episode if --timeout is not set: four hours. */
const wholeEpisode = 4 * 3_600_000;

/**
 * Opens a client. A reply has at least as much time as the episode, so that the episode's own failure is reported
 * first.
 */
function openClient(url: string, flags: SourceSettings, none: number, traces: Telemetry | undefined): GymClient {
  const { timeout = 0, replyTimeout = Math.max(none, timeout + 60_000), replyIdle, maxReply } = flags;
  const largest = maxReply === undefined ? undefined : maxReply * 1024 * 1024;
  return createGymClient(url, { headers: traces?.headers, timeout: replyTimeout, idle: replyIdle, largest });
}

async function serverSource(url: string, target: Target | undefined, flags: SourceSettings): Promise<Source> {
  const traces = await telemetry();
  const client = openClient(url, flags, defaultTimeout, traces);
  const agents = await createAgents(target, flags);
  const tools = await toolsTold(client);
  return {
    environment: client.root,
    agent: agents.name,
    prepare: (row) => toldRow(row, rowForServer(row, tools), { agent: agents.name, flags }),
    player(store, { onEvent, onError } = {}) {
      const sessions = createSessions({ app: "rollouts", store, cache: cacheFor(flags), ...(onError && { onError }) });
      const agentFor = tracedAgents(agents.of, traces);
      const play = createServerPlayer({ client, sessions, agentFor, timeout: flags.timeout, onEvent });
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
    // Nothing is stored here when a different server plays.
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

/**
 * Contacts the server, so that an unreachable one fails early. Any answer counts, because only Holdfast servers list
 * their tools.
 */
async function toolsTold(client: GymClient): Promise<ToolSchema[] | undefined> {
  try {
    return await client.tools();
  } catch (thrown) {
    if (isHoldfastError(thrown) && thrown.code === "invalid_agent") return undefined;
    throw thrown;
  }
}

/** Conversations are cached only while they run; finished ones are not read again. */
const cacheFor = ({ concurrency }: SourceSettings): { sessions: number } => ({ sessions: concurrency });
