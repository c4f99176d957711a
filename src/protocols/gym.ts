// gymProtocol(): serves the protocol that NeMo Gym's agents and trainers use with a resources server. A cookie
// identifies the session.
import { errorTable, HoldfastError, isHoldfastError, unlessCoded } from "../core/errors.ts";
import { isOfVerify } from "../core/event.ts";
import { equalJson, type Json } from "../core/json.ts";
import { randomSeedField, readRandomSeed } from "../core/rollout.ts";
import { check } from "../core/schema.ts";
import { errorReply, notAllowed, type Protocol, type Reply, type Request, type Tokens } from "../core/protocol.ts";
import type { Answer, OpenOptions, SessionInfo, Sessions } from "../core/sessions.ts";
import { createAggregateReply } from "./gym/aggregate-reply.ts";
import { keptCookie, parseCookie, readCookies, writeCookie } from "./http/cookie.ts";
import { parseEpisode, parseTool, withoutRollout } from "./gym/path.ts";
import { createRepeats, type Sent } from "./gym/repeats.ts";
import { buildLabels, failedReply, isWhole, parseRow, toFailure, type Row } from "./gym/row.ts";
import { assertFirst, taskFor } from "./gym/verdict.ts";
import { isMcpPath, limitedMark, parseToolNames, refusalOf, type Bindings } from "./http/mcp-binding.ts";
import { bareNames } from "./http/bare-names.ts";

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
  /** True while its id was issued but no session is stored under it. */
  isNew: boolean;
  /** True if it sent no cookie, so that its id was created for this request. */
  isFresh: boolean;
  /** The version in the last answer that it received, from its cookie. */
  version?: number | undefined;
  /** The tools that it may call, from its cookie. Undefined for all. */
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

// Session ids contain no dot, so this prefix is unambiguous.
const newMark = "new.";

/**
 * Serves one environment's sessions as a resources server.
 *
 * @example
 * const protocol = gymProtocol({ sessions, tokens, aggregate });
 * const reply = await protocol.handle(request);
 */
export function gymProtocol({ sessions, tokens, bindings, aggregate }: GymProtocolOptions): Required<Protocol> {
  const { environment } = sessions;
  const cookie = `holdfast_${environment.name.replaceAll("-", "_")}`;
  const opened = new Set<string>();
  const aggregateReply = createAggregateReply(aggregate);
  /** Whether a tool call needs an episode, and whether a seed must be the session's first. */
  const needsSeed = environment.unseeded === "guard" && environment.state !== undefined;
  const seedsOnce = environment.reseed !== "replace";
  const repeats = createRepeats(sessions.newSession().slice(0, 12));

  const lifecycle = new Map<string, (exchange: Exchange) => Reply | Promise<Reply>>([
    ["GET /", () => ok({ status: "ok" })],
    ["GET /reverify_mode", () => ok(environment.state === undefined ? "stateless" : "unsupported")],
    ["POST /seed_session", seed],
    ["POST /verify", verify],
    ["POST /close_session", close],
    ["POST /aggregate_metrics", ({ request }) => aggregateReply(request.body)],
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
      // An MCP client's token: it may call tools, but neither seed nor verify.
      if (!isNew && value.includes(".")) continue;
      const session = isNew ? value.slice(newMark.length) : value;
      return { session, isNew: isNew && !opened.has(session), isFresh: false, version };
    }
    return { session: sessions.newSession(), isNew: true, isFresh: true };
  }

  // Set on every reply, including refusals, because clients keep only the last reply's cookies.
  function withCookie(reply: Reply, { session, isNew, version, tools }: Caller): Reply {
    const value = tools ? `${limitedMark}${session}.${tools.join(",")}` : session;
    const token = tokens.issue(isNew ? newMark + session : value);
    reply.headers ??= {};
    reply.headers["set-cookie"] = keptCookie(`${cookie}=${writeCookie(token, version)}`);
    return reply;
  }

  /**
   * Opens a new caller's session. Returns undefined if it already exists, because the caller sent its first request
   * twice.
   */
  async function open(caller: Caller, options: OpenOptions<unknown> = {}): Promise<SessionInfo | undefined> {
    const opening = sessions.open({ ...options, session: caller.session });
    const info = await opening.catch(unlessCoded("session_exists"));
    caller.isNew = false;
    // A new session's token must not reopen this session after the store has deleted it.
    opened.add(caller.session);
    if (opened.size > mostOpened) for (const [oldest] of [opened]) opened.delete(oldest as string);
    return info;
  }

  async function seed(exchange: Exchange): Promise<Reply> {
    const { isNew } = exchange.caller;
    const row = parseRow(exchange.request.body);
    try {
      return await seedWith(exchange, row);
    } catch (thrown) {
      // A client that has a session can be a model, which reads the refusal. An agent does not have a session yet when
      // it seeds.
      if (!isHoldfastError(thrown) || !isNew || !isWhole(row)) throw thrown;
      return failedReply({}, toFailure(thrown));
    }
  }

  async function seedWith(exchange: Exchange, row: Row): Promise<Reply> {
    const { caller, rollout } = exchange;
    const { session } = caller;
    const randomSeed = readRandomSeed(row);
    // The row is our own copy. Copying it without the field would take as long as parsing it.
    const task = row;
    delete task[randomSeedField];
    const labels = buildLabels(task, rollout);
    const asked = parseToolNames(exchange.request.headers["holdfast-tools"]);
    // A seed cannot allow what the cookie does not.
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
      // With an idempotency key, the seed is a separate commit, because only then can the key find it again.
      if (caller.isNew && sent.isKeyed) await open(caller);
      if (caller.isNew) {
        const before = sent.opened;
        sent.opened = true;
        const info = await open(caller, { task, labels, randomSeed });
        if (info) return seeded(info);
        sent.opened = before;
      }
      if (!sent.opened) {
        // Comes before the task is checked: a model that seeds itself must not learn about faults in its task.
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
    // An id costs one more entry in the store, so only tools that could run twice get one.
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
   * Finds the session for a caller whose cookie was issued before the session was stored. Refuses if none is stored.
   */
  async function find(caller: Caller): Promise<void> {
    if (!(await exists(caller))) throw new HoldfastError("session_unseeded", neverSeeded);
    caller.isNew = false;
  }

  const exists = async ({ session, isFresh }: Caller): Promise<boolean> =>
    !isFresh && (await sessions.peek(session)) !== undefined;

  /**
   * Finds the outcome of the call that this one may be retrying. Returns the recorded answer, or undefined if the call
   * was not applied. Returns "over" if the client has continued elsewhere, so that this is a new call.
   */
  async function findOutcome(sent: Sent): Promise<Answer | "over" | undefined> {
    const before = sent.repeats;
    if (!before) return undefined;
    // The first attempt may still be running.
    await before.running?.catch(() => undefined);
    const outcome = before.event && (await findRecorded(before, before.event));
    // Done only after the look-up: if the look-up fails, a retry of this request must look again.
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
        if (!isOfVerify(event) && repeats.isForeign(sent, event)) return "over";
        continue;
      }
      if (at !== undefined && at !== event.at) return undefined;
      // The engine itself finds seeds and calls that have an id.
      if (event.type !== "tool.called" || event.call !== undefined) continue;
      if (event.tool !== what || !equalJson(event.input, input as Json)) return undefined;
      answer = { ...event.outcome, session, version, repeated: true, unseeded: event.episode === 0 };
    }
    return answer;
  }

  /** Sends a request. If its answer does not arrive, the next equal request counts as its retry. */
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
    // Kept only until it settles, because it would hold the whole answer in memory.
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
    const response = bareNames(given, environment.name);
    try {
      if (caller.isNew && environment.state === undefined) {
        // A stateless session holds nothing beyond the row. So a rollout can be verified again long after it ended.
        await open(caller, { task: asked, labels: buildLabels(asked, rollout) });
      } else if (caller.isNew && !(await exists(caller))) return await unseeded(row);
      const task = (seeded: unknown): Promise<unknown> => taskFor(environment, seeded, asked);
      const verified = await sessions.verify(caller.session, { response, task });
      const { session, episode, verdict, reseeds, verdicts } = verified;
      if (episode === 0) return await unseeded(row);
      if (verdicts > 1 && isWhole(row)) await assertFirst(sessions, verified, response);
      return ok({ ...row, ...verdict, session_id: session, holdfast: { episode, reseeds, verdicts } });
    } catch (thrown) {
      if (!isHoldfastError(thrown) || !isWhole(row)) throw thrown;
      return failedReply(row, toFailure(thrown));
    }
  }

  /** Answers a verify without an episode. If the body is a whole row that is invalid, it could not have been seeded. */
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
    return lifecycle.has(`POST ${path}`) || environment.definitions.has(parseTool(path) ?? "");
  }

  return {
    name: "gym",
    async handle(request) {
      const { rollout, path } = withoutRollout(request.path);
      // Lifecycle paths are matched before decoding. A tool name is decoded later, so it cannot reach one of them.
      const verb = lifecycle.get(`${request.method} ${path}`);
      const tool = verb || request.method !== "POST" ? undefined : parseTool(path);
      if (!verb && tool === undefined) {
        if (request.method !== "GET" || !isServedByPost(path)) return undefined;
        return withCookie(errorReply(notAllowed(path, request.method, ["POST"])), identifyCaller(request));
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
      // Otherwise an MCP client would keep the cookie for a session that is not its own.
      if (caller.isFresh && bindings && isMcpPath(request.path)) return reply;
      return withCookie({ ...reply, headers: { ...reply.headers } }, caller);
    },
  };
}

const neverSeeded = "the session was never seeded: its seed failed, or its cookie was lost";

const seededBefore = (session: string): HoldfastError =>
  new HoldfastError(
    "episode_in_flight",
    `session ${session} was seeded before; seed without its cookie to open another session`,
  );

/** Returns whether an error leaves it unknown whether the call was applied. */
function isUndecided({ code, status }: HoldfastError): boolean {
  return status >= 500 || code === "call_in_progress";
}

function ok(body: unknown): Reply {
  return { status: 200, body };
}

/** Builds the reply that a model reads: the tool's output or its error. */
function answered(answer: Answer): Reply {
  const headers: { [name: string]: string } = {};
  if (answer.unseeded) headers["holdfast-session"] = "new";
  if (answer.repeated) headers["holdfast-repeated"] = "true";
  if (!answer.ok) {
    const { code, message, detail = {} } = answer.error;
    return { status: errorTable[code].status, headers, body: { error: { code, message, detail } } };
  }
  if (typeof answer.output !== "string") return { status: 200, headers, body: answer.output };
  headers["content-type"] = "text/plain; charset=utf-8";
  return { status: 200, headers, text: answer.output };
}
