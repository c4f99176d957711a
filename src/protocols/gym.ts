// gymProtocol(): serves the protocol that NeMo Gym's agents and trainers use with a resources server. A cookie
// identifies the session.
import { dropOldest } from "../core/drop-oldest.ts";
import { HoldfastError, isHoldfastError, unlessCoded } from "../core/errors.ts";
import { isAside } from "../core/event.ts";
import { equalJson, type Json } from "../core/json.ts";
import { randomSeedField, readRandomSeed } from "../core/rollout.ts";
import { check } from "../core/schema.ts";
import {
  errorReply,
  notAllowed,
  type DecoratingProtocol,
  type Reply,
  type Request,
  type Tokens,
} from "../core/protocol.ts";
import type { Answer, OpenOptions, SessionInfo, Sessions } from "../core/sessions.ts";
import { answered } from "./gym/answered.ts";
import { createAggregateReply } from "./gym/aggregate-reply.ts";
import { keptCookie, parseCookie, readCookies, writeCookie } from "./http/cookie.ts";
import { parseEpisode, parseTool, withoutRollout } from "./gym/path.ts";
import { createRepeats, type Sent } from "./gym/repeats.ts";
import { buildLabels, failedReply, isWhole, parseRow, toFailure, type Row } from "./gym/row.ts";
import { taskFor } from "./gym/verdict.ts";
import { assertFirst } from "./http/first-verdict.ts";
import { isMcpPath, limitedMark, parseToolNames, refusalOf, type Bindings } from "./http/mcp-binding.ts";
import { ok } from "./http/route.ts";
import { bareNames } from "../core/bare-names.ts";

export interface GymProtocolOptions {
  sessions: Sessions;
  tokens: Tokens;
  /** Adds instructions for MCP clients to a seed's answer: how to reach the session. Default: nothing is added. */
  bindings?: Bindings | undefined;
  /** Computes metrics from a collection's rows. */
  aggregate(rows: unknown): Promise<object>;
}

/** The client that sent a request. */
interface Caller {
  session: string;
  /** True if the id was issued, but no session is stored under it yet. */
  isNew: boolean;
  /** True if the client sent no cookie, so the session id was created for this request. */
  isFresh: boolean;
  /** The version in the last answer that the client received, from its cookie. */
  version?: number | undefined;
  /** The tools that the client may call, from its cookie. Undefined means all tools. */
  tools?: readonly string[] | undefined;
}

interface Exchange {
  request: Request;
  caller: Caller;
  /** The rollout id in the path, if present. */
  rollout: string | undefined;
  /** The call id, once it is assigned. */
  call?: string;
}

/** Number of recently opened sessions to remember. */
const mostOpened = 100_000;

// Marks the token of a session that is not stored yet. Session ids contain no dot, so the mark is unambiguous.
const newMark = "new.";

/**
 * Serves one environment's sessions as a resources server.
 *
 * @example
 * const protocol = gymProtocol({ sessions, tokens, aggregate });
 * const reply = await protocol.handle(request);
 */
export function gymProtocol({ sessions, tokens, bindings, aggregate }: GymProtocolOptions): DecoratingProtocol {
  const { environment } = sessions;
  const cookie = `holdfast_${environment.name.replaceAll("-", "_")}`;
  const opened = new Set<string>();
  const aggregateReply = createAggregateReply(aggregate);
  /** `needsSeed`: a tool call needs a seeded episode. `seedsOnce`: a session can be seeded only once. */
  const needsSeed = environment.unseeded === "guard" && environment.state !== undefined;
  const seedsOnce = environment.reseed !== "replace";
  const repeats = createRepeats(sessions.newSession().slice(0, 12));

  type Verb = (exchange: Exchange) => Reply | Promise<Reply>;
  const reads = new Map<string, Verb>([
    ["/", () => ok({ status: "ok" })],
    ["/reverify_mode", () => ok(environment.state === undefined ? "stateless" : "unsupported")],
  ]);
  const writes = new Map<string, Verb>([
    ["/seed_session", seed],
    ["/verify", verify],
    ["/close_session", close],
    ["/aggregate_metrics", ({ request }) => aggregateReply(request.body)],
  ]);

  /** Identifies the caller by its cookie. A request without a valid token gets a new session id. */
  function identifyCaller({ headers }: Request): Caller {
    for (const found of readCookies(headers["cookie"], cookie)) {
      const { token, version } = parseCookie(found);
      const value = tokens.check(token);
      if (value === undefined) continue;
      if (value.startsWith(limitedMark)) {
        const [, session = "", names = ""] = value.split(".");
        return { session, isNew: false, isFresh: false, version, tools: names.split(",") };
      }
      const isNew = value.startsWith(newMark);
      // Skips an MCP client's token: its holder may call tools over MCP, but neither seed nor verify.
      if (!isNew && value.includes(".")) continue;
      const session = isNew ? value.slice(newMark.length) : value;
      return { session, isNew: isNew && !opened.has(session), isFresh: false, version };
    }
    return { session: sessions.newSession(), isNew: true, isFresh: true };
  }

  // Sets the cookie on every reply, including refusals, because clients keep only the last reply's cookies.
  function withCookie(reply: Reply, { session, isNew, version, tools }: Caller): Reply {
    const value = tools ? `${limitedMark}${session}.${tools.join(",")}` : session;
    const token = tokens.issue(isNew ? newMark + session : value);
    reply.headers ??= {};
    reply.headers["set-cookie"] = keptCookie(`${cookie}=${writeCookie(token, version)}`);
    return reply;
  }

  /**
   * Opens a new caller's session. Returns undefined if it already exists, which happens if the caller sends its first
   * request twice.
   */
  async function open(caller: Caller, options: OpenOptions<unknown> = {}): Promise<SessionInfo | undefined> {
    const opening = sessions.open({ ...options, session: caller.session });
    const info = await opening.catch(unlessCoded("session_exists"));
    caller.isNew = false;
    // Remembers the session. Otherwise, its token could open it again after the store has deleted it.
    opened.add(caller.session);
    dropOldest(opened, mostOpened);
    return info;
  }

  async function seed(exchange: Exchange): Promise<Reply> {
    const { isNew } = exchange.caller;
    const row = parseRow(exchange.request.body);
    try {
      return await seedWith(exchange, row);
    } catch (thrown) {
      // An agent has no session yet when it seeds, and gets the reply for a failed row. A client that already has a
      // session can be a model, which must read the error.
      if (!isHoldfastError(thrown) || !isNew || !isWhole(row)) throw thrown;
      return failedReply({}, toFailure(thrown));
    }
  }

  async function seedWith(exchange: Exchange, row: Row): Promise<Reply> {
    const { caller, rollout } = exchange;
    const { session } = caller;
    const randomSeed = readRandomSeed(row);
    // Deletes the field in this private copy of the row. Another copy would take as long as parsing the row.
    const task = row;
    delete task[randomSeedField];
    const labels = buildLabels(task, rollout);
    const asked = parseToolNames(exchange.request.headers["holdfast-tools"], environment.definitions);
    // A seed cannot allow tools that the cookie does not allow.
    const { tools: had } = caller;
    const tools = asked && had ? asked.filter((tool) => had.includes(tool)) : (asked ?? had);
    const seededReply = (episode: number): Reply => {
      caller.tools = tools;
      return ok({ session_id: session, episode, ...(bindings && { mcp: bindings.address(session, tools) }) });
    };
    return sending(exchange, "/seed_session", task, true, async (sent) => {
      const seeded = ({ version, episode }: { version: number; episode: number }): Reply => {
        sent.event = { version };
        caller.version = version;
        return seededReply(episode);
      };
      const isRepeat = sent.isKeyed || sent.repeats !== undefined;
      if ((await findOutcome(sent)) === "over") sent.opened = false;
      // With an idempotency key, the seed is a separate commit, so that a retry can find it by the key.
      if (caller.isNew && sent.isKeyed) await open(caller);
      if (caller.isNew) {
        const before = sent.opened;
        sent.opened = true;
        const info = await open(caller, { task, labels, randomSeed });
        if (info) return seeded(info);
        sent.opened = before;
      }
      if (!sent.opened) {
        // Refuses a second seed before its task is checked. Otherwise, a model that seeds could learn whether a task is
        // valid.
        if (seedsOnce && !isRepeat && (await sessions.info(session)).episode > 0) throw seededBefore(session);
        const options = { call: sent.call, labels, randomSeed, first: seedsOnce };
        return seeded(await sessions.seed(session, task, options));
      }
      const { episode } = await sessions.info(session);
      return seededReply(episode);
    });
  }

  function call(exchange: Exchange, tool: string): Promise<Reply> {
    const { request, caller } = exchange;
    if (caller.tools?.includes(tool) === false) throw new HoldfastError("unknown_tool", refusalOf(tool, caller.tools));
    const episode = parseEpisode(request.headers["holdfast-episode"]);
    // A call id costs one more entry in the store, so calls of tools that change only the state get none.
    const needsId = (environment.definitions.get(tool)?.kind ?? "state") !== "state";
    const send = (): Promise<Reply> =>
      sending(exchange, tool, request.body ?? {}, needsId, async (sent) => {
        const outcome = sent.repeats ? await findOutcome(sent) : undefined;
        const { call, input } = sent;
        const answer =
          typeof outcome === "object" && call === undefined
            ? outcome
            : await sessions.call(caller.session, tool, input, {
                call,
                episode,
                seen: caller.version,
                seeded: needsSeed,
              });
        sent.event = { version: answer.version };
        caller.version = answer.version;
        repeats.answered(sent, answer.version);
        return answered(answer);
      });
    if (!caller.isNew) return send();
    // Unknown paths do not open a session: a scanner must not fill the store.
    if (!environment.definitions.has(tool)) throw unknownTool(tool);
    return (needsSeed ? find(caller) : open(caller)).then(send);
  }

  /**
   * Finds the session for a caller whose cookie was issued before the session was stored. Refuses if no session is
   * stored.
   */
  async function find(caller: Caller): Promise<void> {
    if (!(await exists(caller))) throw new HoldfastError("session_unseeded", neverSeeded);
    caller.isNew = false;
  }

  const exists = async ({ session, isFresh }: Caller): Promise<boolean> =>
    !isFresh && (await sessions.peek(session)) !== undefined;

  /**
   * Finds the outcome of the call that this call may be retrying. Returns the recorded answer, or undefined if the call
   * was not applied. Returns "over" if the client has continued on another server, so that this is a new call.
   */
  async function findOutcome(sent: Sent): Promise<Answer | "over" | undefined> {
    const before = sent.repeats;
    if (!before) return undefined;
    // Waits for the first attempt, which may still be running.
    await before.running?.catch(() => undefined);
    const outcome = before.event && (await findRecorded(before, before.event));
    // The retry is settled only after the look-up. If the look-up fails, the next retry must look again.
    repeats.looked(sent);
    if (outcome === "over" && sent.call !== undefined) sent.call = repeats.newId();
    return outcome;
  }

  async function findRecorded(
    sent: Sent,
    { version, at }: { version: number; at?: number },
  ): Promise<Answer | "over" | undefined> {
    const { session, what, input } = sent;
    let answer: Answer | undefined;
    for await (const event of sessions.events(session, { after: version - 1 })) {
      if (event.version > version) {
        if (!isAside(event) && repeats.isForeign(sent, event)) return "over";
        continue;
      }
      if (at !== undefined && at !== event.at) return undefined;
      // Skips seeds and calls that have an id, because the engine recognises their retries.
      if (event.type !== "tool.called" || event.call !== undefined) continue;
      if (event.tool !== what || !equalJson(event.input, input as Json)) return undefined;
      answer = { ...event.outcome, session, version, repeated: true, unseeded: event.episode === 0 };
    }
    return answer;
  }

  /** Handles a request. If its answer does not reach the client, the next identical request counts as a retry. */
  function sending(
    exchange: Exchange,
    what: string,
    input: unknown,
    needsId: boolean,
    send: (sent: Sent) => Promise<Reply>,
  ): Promise<Reply> {
    const { request, caller } = exchange;
    const sent = repeats.begin(caller.session, what, input, request, needsId);
    exchange.call = sent.call;
    const running = attempted(sent, send);
    // The promise is kept only until it settles, because it holds the whole answer in memory.
    if (sent.running === undefined && !sent.isOver) sent.running = running;
    return running;
  }

  async function attempted(sent: Sent, send: (sent: Sent) => Promise<Reply>): Promise<Reply> {
    try {
      return await send(sent);
    } catch (thrown) {
      if (isHoldfastError(thrown) && isUndecided(thrown)) {
        // The outcome is unknown; a retry will look it up.
        sent.event = (thrown.detail["doubt"] as Sent["event"]) ?? sent.event ?? sent.repeats?.event;
        repeats.lost(sent);
      }
      throw thrown;
    } finally {
      sent.running = undefined;
      repeats.looked(sent);
    }
  }

  async function verify({ request, caller, rollout }: Exchange): Promise<Reply> {
    const row = parseRow(request.body);
    delete row[randomSeedField];
    const { response: given, ...asked } = row;
    const response = bareNames(given, environment);
    try {
      if (caller.isNew && environment.state === undefined) {
        // A stateless session stores only the row, so verify can open it again long after the rollout ended.
        await open(caller, { task: asked, labels: buildLabels(asked, rollout) });
      } else if (caller.isNew && !(await exists(caller))) return await unseeded(row);
      const task = (seeded: unknown): Promise<unknown> => taskFor(environment, seeded, asked);
      const verified = await sessions.verify(caller.session, { response, task });
      const { session, episode, verdict, reseeds, verdicts } = verified;
      if (episode === 0) return await unseeded(row);
      if (verdicts > 1 && isWhole(row)) await assertFirst(sessions, verified, response);
      // A judge may call its own text `response`. It must not replace the transcript.
      const transcript = given === undefined ? undefined : { response: given };
      return ok({ ...row, ...verdict, ...transcript, session_id: session, holdfast: { episode, reseeds, verdicts } });
    } catch (thrown) {
      if (!isHoldfastError(thrown) || !isWhole(row)) throw thrown;
      return failedReply(row, toFailure(thrown));
    }
  }

  /** Answers a verify without an episode. If the row is not a valid task, the reply says why it was not seeded. */
  async function unseeded(row: Row): Promise<Reply> {
    const { response: _, ...asked } = row;
    const checked = isWhole(row) ? await check(environment.task, asked) : undefined;
    const invalid = !checked || checked.ok ? undefined : `the row is not a valid task: ${checked.message}`;
    const thrown = new HoldfastError(invalid === undefined ? "verify_failed" : "invalid_task", invalid ?? neverSeeded);
    return failedReply(row, toFailure(thrown));
  }

  async function close({ caller }: Exchange): Promise<Reply> {
    return ok({ closed: !caller.isNew && (await sessions.close(caller.session)) });
  }

  function unknownTool(tool: string): HoldfastError {
    const known = [...environment.definitions.keys()].join(", ") || "none";
    return new HoldfastError("unknown_tool", `there is no tool "${tool}"; the tools are: ${known}`);
  }

  function isServedByPost(path: string): boolean {
    return writes.has(path) || environment.definitions.has(parseTool(path) ?? "");
  }

  return {
    name: "gym",
    async handle(request) {
      const { rollout, path } = withoutRollout(request.path);
      // Paths such as /verify are matched before decoding. A tool name is decoded later, so it cannot be such a path.
      const { method } = request;
      const verb = method === "POST" ? writes.get(path) : method === "GET" ? reads.get(path) : undefined;
      const tool = verb || method !== "POST" ? undefined : parseTool(path);
      if (!verb && tool === undefined) {
        if (method !== "GET" || !isServedByPost(path)) return undefined;
        return withCookie(errorReply(notAllowed(path, method, ["POST"])), identifyCaller(request));
      }
      const caller = identifyCaller(request);
      const exchange: Exchange = { request, caller, rollout };
      let reply: Reply;
      try {
        if (verb && verb !== seed) repeats.forget(caller.session);
        reply = await (verb ? verb(exchange) : call(exchange, tool as string));
      } catch (thrown) {
        if (!isHoldfastError(thrown)) throw thrown;
        reply = errorReply(thrown);
      }
      reply.about = { session: caller.session, call: exchange.call, rollout };
      return withCookie(reply, caller);
    },
    decorate(request, reply) {
      if (reply.headers?.["set-cookie"]) return reply;
      const caller = identifyCaller(request);
      // Clients of other protocols get no new cookie, because it would be for a session that they do not use.
      const isOther = /^\/(?:v1|openenv|ors|m)\//.test(request.path) || (bindings && isMcpPath(request.path));
      if (caller.isFresh && isOther) return reply;
      return withCookie({ ...reply, headers: { ...reply.headers } }, caller);
    },
  };
}

const neverSeeded = "the session was never seeded: its seed failed, or its cookie was lost";

const seededBefore = (session: string): HoldfastError =>
  new HoldfastError(
    "episode_in_flight",
    `session ${session} is already seeded; send the seed request without its cookie to open a new session`,
  );

/** Returns whether the call may have been applied despite the error. */
function isUndecided({ code, status }: HoldfastError): boolean {
  return status >= 500 || code === "call_in_progress";
}
