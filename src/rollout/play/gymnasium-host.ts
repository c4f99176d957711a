// gymnasiumHost(): hosts episodes on a server with NeMo Gym's gymnasium form of the gym protocol: reset and step.
import type { AgentContext } from "../../core/agent.ts";
import { HoldfastError, invalidOption, messageOf } from "../../core/errors.ts";
import type { NumberedEvent } from "../../core/event.ts";
import { isObject, type Json } from "../../core/json.ts";
import type { Item } from "../../core/model.ts";
import { randomSeedField, type Rollout, type TaskRow } from "../../core/rollout.ts";
import type { AgentState } from "../../core/shared-state.ts";
import { derivedId, whenDecided } from "../../agent/episodes.ts";
import { errorIn, failureIn, isOk, objectIn, rowAsSent, shownText } from "../gym-client.ts";
import type { Cookies, GymClient, GymReply } from "../gym-client.ts";
import { toVerdictFields } from "../row-fields.ts";
import type { EpisodeHost, EpisodeTools } from "./episode-host.ts";
import { buildResponse } from "./response.ts";
import { inDoubtError, toolsIn } from "./server-host.ts";

/** The field with the id of a step, for servers that apply a step once. */
const stepField = "_ng_step_request_id";
/** Milliseconds that a server has to close an episode. The verdict does not depend on it. */
const closeWithin = 10_000;

/** An episode on the server, as the conversation's state holds it. The cookies grant access to it. */
interface Episode {
  cookies: Cookies;
  /** The server applies a step with an id once. */
  isOnce: boolean;
  /** The server wants to be told when the episode ends. */
  isClosed: boolean;
  /** The version of the newest answer that was sent. */
  step: number;
  /** The server's text for the model after that answer. */
  observation: string | null;
  /** The sum of the rewards so far. */
  reward: number;
  /** The fields of the step with which the server ended the episode. */
  ended?: TaskRow;
}

/** A reply to a step. */
interface Step {
  observation: string | null;
  reward: number;
  terminated: boolean;
  truncated: boolean;
  info: TaskRow;
}

/**
 * Sends every answer of the model to `/step`. The server answers the model's calls, sends an observation, or ends the
 * episode. The reward is the sum of the steps' rewards. A step that may have reached the server before an interruption
 * is sent again only if the server supports step ids. Otherwise the rollout fails and starts again.
 */
export function gymnasiumHost(client: GymClient): EpisodeHost {
  const key = `gym:gymnasium+${client.root}`;

  function episodeIn(state: AgentState): Episode {
    if (state[key] !== undefined) return state[key] as unknown as Episode;
    throw new HoldfastError("outcome_unknown", `the conversation has no episode on the server ${client.root}`);
  }

  async function reset({ row, random }: Rollout, signal: AbortSignal): Promise<AgentState> {
    const body = { ...rowAsSent(row), [randomSeedField]: random };
    const reply = await client.post({ path: "/reset", body, signal }).catch((thrown: unknown) => {
      if (signal.aborted) throw thrown;
      throw new HoldfastError("seed_failed", messageOf(thrown));
    });
    const { observation, info } = resetIn(reply);
    const episode: Episode = {
      cookies: reply.cookies,
      isOnce: info["supports_step_idempotency"] === true,
      isClosed: info["supports_explicit_close"] === true,
      step: 0,
      observation,
      reward: 0,
    };
    return { [key]: episode as unknown as Json };
  }

  /** Tells the server that the episode is over. Nothing depends on the reply. */
  async function close({ cookies, isClosed }: Episode): Promise<void> {
    if (!isClosed) return;
    const signal = AbortSignal.timeout(closeWithin);
    await client.post({ path: "/close", body: {}, cookies, signal }).catch(() => undefined);
  }

  function episodeTools(rollout: Rollout, events: readonly NumberedEvent[]): EpisodeTools {
    const before = events.at(-1)?.version ?? 0;
    /** The newest step, which all calls of its answer share. */
    let newest: { step: number; sent: Promise<{ episode: Episode; outputs: Map<string, string> }> } | undefined;

    async function send(episode: Episode, answers: NumberedEvent[], step: number, signal: AbortSignal) {
      if (step <= before && !episode.isOnce) throw inDoubtError(client.root, "the step");
      const response = buildResponse(rollout, answers);
      const body = { ...rowAsSent(rollout.row), response };
      if (episode.isOnce) Object.assign(body, { [stepField]: derivedId(rollout.session, String(step)) });
      return whenDecided(signal, async () => {
        const reply = await client.post({ path: "/step", body, cookies: episode.cookies, signal });
        const { observation, reward, terminated, truncated, info } = stepIn(reply, client.root);
        const { tool_outputs: outputs = [], ...about } = info;
        const next: Episode = {
          ...episode,
          cookies: reply.cookies,
          step,
          observation,
          reward: episode.reward + reward,
          ...((terminated || truncated) && { ended: { ...about, terminated, truncated } }),
        };
        return { episode: next, outputs: outputsIn(outputs, client.root) };
      });
    }

    /** Sends the newest answer, unless it was sent before. */
    async function advance(state: AgentState, signal: AbortSignal) {
      const episode = episodeIn(state);
      const answers = newestAnswers(events);
      const step = answers.at(-1)?.version ?? 0;
      if (newest?.step === step) return newest.sent;
      if (step <= episode.step) return { episode, outputs: new Map<string, string>() };
      newest = { step, sent: send(episode, answers, step, signal) };
      return newest.sent;
    }

    return {
      list: () => Promise.resolve(structuredClone(toolsIn(rollout.row))),
      async call(context: AgentContext, { call }) {
        const { episode, outputs } = await advance(context.state, context.signal);
        // An update instead of a plain write, because all calls of one answer set the key.
        context.update(key, () => episode as unknown as Json);
        return outputs.get(call) ?? "";
      },
      async next(state, signal) {
        const { episode } = await advance(state, signal);
        const { observation, ended } = episode;
        const message: Item[] = observation ? [{ type: "message", role: "user", content: observation }] : [];
        return { isOver: ended !== undefined, message, state: { [key]: episode as unknown as Json } };
      },
    };
  }

  return {
    findSession: ({ session }) => session,
    open: reset,
    version: () => Promise.reject(invalidOption("an episode on a server cannot be forked")),
    tools: episodeTools,
    async verdict({ row }, { state }) {
      const episode = episodeIn(await state());
      await close(episode);
      // If the server did not end the episode, a limit of the agent ended it.
      const { session_id: session, ...ended } = episode.ended ?? { terminated: false, truncated: true };
      const { holdfast: _, ...told } = ended;
      const verdict = toVerdictFields({ ...told, reward: episode.reward }, row);
      return { verdict, ...(typeof session === "string" && { session }) };
    },
    abandon: async (state) => close(episodeIn(await state())),
  };
}

/** Returns the answers of the newest turn, without the answers of agents used as tools. */
function newestAnswers(events: readonly NumberedEvent[]): NumberedEvent[] {
  const from = events.findLastIndex(({ type }) => type === "invocation.began");
  return events
    .slice(Math.max(0, from))
    .filter((event) => (event.type === "model.answered" || isReplaced(event)) && !event.path.includes("#"));
}

/** Returns whether a callback answered in place of the model. */
const isReplaced = (event: NumberedEvent): event is NumberedEvent & { type: "agent.began" } =>
  event.type === "agent.began" && event.items !== undefined;

function resetIn(reply: GymReply): Pick<Step, "observation" | "info"> {
  const { status, text } = reply;
  const given = isOk(reply) ? objectIn(text) : undefined;
  const { observation = null, info = {} } = given ?? {};
  const isWhole = given !== undefined && isObservation(observation) && isObject(info ?? {});
  const failed = isWhole ? (failureIn(given) ?? failureIn((info ?? {}) as TaskRow)) : undefined;
  if (isWhole && failed === undefined) return { observation, info: (info ?? {}) as TaskRow };
  const message = `the server answered /reset with ${status}: ${failed ?? shownText(text)}`;
  // The row is invalid and would be refused again.
  throw new HoldfastError(status === 422 || status === 400 ? "invalid_task" : "seed_failed", message);
}

function stepIn(reply: GymReply, root: string): Step {
  const { status, text } = reply;
  if (!isOk(reply)) {
    const known = errorIn(text);
    if (known?.code === "call_in_progress") throw new HoldfastError(known.code, known.message);
    const isKnown = known !== undefined && (known.code === "verify_failed" || known.code.startsWith("store_"));
    throw new HoldfastError(
      isKnown ? known.code : "server_failed",
      `the server at ${root} answered /step with ${status}: ${shownText(text)}`,
    );
  }
  const { observation = null, reward, terminated, truncated, info: given } = objectIn(text) ?? {};
  const info = given ?? {};
  const isWhole = isObservation(observation) && Number.isFinite(reward) && isObject(info);
  if (!isWhole || typeof terminated !== "boolean" || typeof truncated !== "boolean") {
    throw new HoldfastError(
      "server_failed",
      `the server at ${root} answered /step with a reply that is not a step: ${shownText(text)}`,
    );
  }
  const failed = failureIn(objectIn(text) ?? {}) ?? failureIn(info as TaskRow);
  if (failed !== undefined)
    throw new HoldfastError("verify_failed", `the server answered /step with a failure: ${failed}`);
  return { observation, reward: reward as number, terminated, truncated, info: info as TaskRow };
}

const isObservation = (value: unknown): value is string | null => value === null || typeof value === "string";

/** Returns the outputs of calls, by call id. */
function outputsIn(given: Json, root: string): Map<string, string> {
  const outputs = Array.isArray(given) ? given : [null];
  return new Map(
    outputs.map((each) => {
      const { call_id: call, output } = isObject(each) ? each : {};
      if (typeof call === "string" && typeof output === "string") return [call, output] as const;
      throw new HoldfastError("server_failed", `the server at ${root} answered /step with invalid \`tool_outputs\``);
    }),
  );
}
