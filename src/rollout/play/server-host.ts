// serverHost(): hosts episodes on any server that speaks the gym protocol.
import type { AgentContext, Toolset } from "../../core/agent.ts";
import type { AgentState } from "../../core/shared-state.ts";
import { HoldfastError, invalidOption, isForModel, messageOf } from "../../core/errors.ts";
import type { NumberedEvent } from "../../core/event.ts";
import type { Json } from "../../core/json.ts";
import { isFunctionCall, type ToolSchema } from "../../core/model.ts";
import { isReservedTool } from "../../core/reserved-names.ts";
import { randomSeedField, type Rollout, type TaskRow } from "../../core/rollout.ts";
import { whenDecided } from "../../agent/episodes.ts";
import { errorIn, failureIn, isOk, objectIn, parseOutput, rowAsSent, shownText } from "../gym-client.ts";
import type { Cookies, GymClient, GymReply } from "../gym-client.ts";
import { createKeyedQueue } from "../../io/keyed-queue.ts";
import { toVerdictFields } from "../row-fields.ts";
import type { EpisodeHost } from "./episode-host.ts";
import { verifyFailed } from "./failure.ts";

/**
 * Hosts episodes on a server. The conversation is stored in this process's store. Its state holds the episode's cookies
 * under `gym:URL`, so an interrupted episode can continue. A call that may have reached the server before the
 * interruption is sent again only to a Holdfast server. Otherwise the rollout fails and starts again.
 */
export function serverHost(client: GymClient): EpisodeHost {
  const key = `gym:${client.root}`;

  function cookiesIn(state: AgentState): Cookies {
    if (state[key] !== undefined) return { ...(state[key] as Cookies) };
    throw new HoldfastError("outcome_unknown", `the conversation has no episode on the server ${client.root}`);
  }

  async function seed({ row, random }: Rollout, signal: AbortSignal): Promise<AgentState> {
    const { cookies, ...reply } = await lifecycle("seed_failed", {
      path: "/seed_session",
      body: { ...rowAsSent(row), [randomSeedField]: random },
      signal,
    });
    const failed = isOk(reply) ? failureIn(objectIn(reply.text) ?? {}) : undefined;
    if (isOk(reply) && failed === undefined) return { [key]: cookies };
    const message = `the server answered /seed_session with ${reply.status}: ${failed ?? shownText(reply.text)}`;
    // The row is invalid and would be refused again.
    const isRefused = reply.status === 422 || reply.status === 400 || objectIn(reply.text)?.["failure_kind"] === "task";
    throw new HoldfastError(isRefused ? "invalid_task" : "seed_failed", message);
  }

  async function lifecycle(code: "seed_failed" | "verify_failed", request: Parameters<GymClient["post"]>[0]) {
    try {
      return await client.post(request);
    } catch (thrown) {
      if (request.signal.aborted) throw thrown;
      // The error has no cause, because it is not an error in the author's code. Only a Holdfast server can be asked for
      // the same verdict again: others may have dropped the episode, and score an empty one.
      const isPlayed = code === "verify_failed" && isHoldfast(request.cookies ?? {});
      throw isPlayed ? verifyFailed(messageOf(thrown)) : new HoldfastError(code, messageOf(thrown));
    }
  }

  return {
    // The server's own session id arrives with the verdict.
    findSession: ({ session }) => session,
    open: seed,
    version: () => Promise.reject(invalidOption("an episode on a server cannot be forked")),
    tools: ({ row }, before) => sessionTools(toolsIn(row), callsInDoubt(before)),
    async verdict({ row }, { state, response, signal }) {
      const body = { ...rowAsSent(row), response };
      const request = { path: "/verify", body, cookies: cookiesIn(await state()), signal };
      return verdictIn(await lifecycle("verify_failed", request), row);
    },
  };

  /** Returns one conversation's tools. The model reads the server's answers unchanged. */
  function sessionTools(tools: ToolSchema[], inDoubt: ReadonlySet<string>): Toolset {
    /** The newest cookies. The state has older cookies while the calls of one answer run in sequence. */
    let cookies: Cookies | undefined;
    const inTurn = createKeyedQueue();

    async function send(context: AgentContext, tool: string, input: Json, once: string): Promise<Json> {
      context.signal.throwIfAborted();
      cookies ??= cookiesIn(context.state);
      if (inDoubt.has(once) && !isHoldfast(cookies)) throw inDoubtError(client.root, tool);
      const path = `/${encodeURIComponent(tool)}`;
      const reply = await client.post({ path, body: input, cookies, once, signal: context.signal });
      // Refusals set cookies too. They are results, so their cookies are committed with them.
      cookies = reply.cookies;
      context.state[key] = cookies;
      return toResult(reply);
    }

    return {
      list: () => Promise.resolve(structuredClone(tools)),
      call(context, { tool, input, once }) {
        return inTurn(context.session, () => whenDecided(context.signal, () => send(context, tool, input, once)));
      },
    };
  }
}

/** A Holdfast server applies a call once, however often it is sent. */
const isHoldfast = (cookies: Cookies): boolean => Object.keys(cookies).some((name) => name.startsWith("holdfast_"));

/** Returns the ids of calls that may have been sent before the conversation was interrupted. */
function callsInDoubt(before: readonly NumberedEvent[]): ReadonlySet<string> {
  const at = before.findLastIndex(({ type }) => type === "model.answered");
  const answer = before[at];
  if (answer?.type !== "model.answered") return new Set();
  if (before.slice(at).some(({ type }) => type === "tools.answered")) return new Set();
  const calls = (answer.items ?? []).filter(isFunctionCall);
  return new Set(calls.map(({ call_id }) => `${answer.version}.${call_id}`));
}

export function inDoubtError(root: string, tool: string): HoldfastError {
  const message = `${tool} may already have run before the interruption; sending the call again could make ${root} run it twice`;
  return new HoldfastError("outcome_unknown", message);
}

/**
 * Returns the body of a success or a refusal for the model. Throws if the server failed, because that is not for the
 * model. A failing store is named, because the rollout may continue later.
 */
function toResult({ status, text }: GymReply): Json {
  if (isOk({ status })) return parseOutput(text);
  const known = errorIn(text);
  if (known?.code === "call_in_progress") throw new HoldfastError(known.code, known.message);
  if (status < 500 && (!known || isForModel(known.code))) return parseOutput(text);
  const code = known?.code.startsWith("store_") ? known.code : "server_failed";
  throw new HoldfastError(code, `the server answered ${status}: ${shownText(text)}`);
}

function verdictIn(reply: GymReply, row: TaskRow): { verdict: TaskRow; session?: string } {
  if (!isOk(reply)) throw noVerdict(`with ${reply.status}: ${shownText(reply.text)}`);
  const given = objectIn(reply.text);
  if (!given) throw noVerdict(`with text that is not a JSON object: ${shownText(reply.text)}`);
  const { responses_create_params: _, response: __, session_id: session, ...told } = given;
  const own = isHoldfast(reply.cookies) ? withoutOwn(told) : told;
  const failed = failureIn(own);
  // The server may have lost the episode, so the episode is played again.
  if (failed !== undefined) throw noVerdict(`with a failure: ${failed}`);
  if (!Number.isFinite(own["reward"])) throw noVerdict("without a reward that is a number");
  return { verdict: toVerdictFields(own, row), ...(typeof session === "string" && { session }) };
}

/** Removes the fields about the session that Holdfast adds. Version 0.1 did not nest them. */
function withoutOwn(told: TaskRow): TaskRow {
  const { holdfast: _, episode: __, reseeds: ___, verdicts: ____, ...verdict } = told;
  return verdict;
}

const noVerdict = (what: string): HoldfastError =>
  new HoldfastError("verify_failed", `the server answered /verify ${what}`);

export function toolsIn({ responses_create_params: params }: TaskRow): ToolSchema[] {
  const { tools } = Object(params) as { tools?: Json };
  const listed = Array.isArray(tools) ? tools.map((tool) => Object(tool) as ToolSchema) : [];
  return listed.filter(({ type }) => type === "function");
}

/** Adds the server's tools to a row without tools. */
export function rowForServer(row: TaskRow, told: ToolSchema[] = []): TaskRow {
  const params = Object(row["responses_create_params"]) as TaskRow;
  const isGiven = Array.isArray(params["tools"]) && params["tools"].length > 0;
  const tools = isGiven ? params["tools"] : told;
  const played: TaskRow = { ...row, responses_create_params: { ...params, tools: tools as Json } };
  for (const { name } of toolsIn(played)) {
    // A path with several segments could reach a reserved name.
    if (/^[A-Za-z0-9_-]{1,128}$/.test(name) && !isReservedTool(name)) continue;
    const message = `the row names the tool ${JSON.stringify(name)}, which is reserved or not a valid name`;
    throw new HoldfastError("invalid_task", message);
  }
  return played;
}
