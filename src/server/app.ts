// createApp(): takes a request, returns a reply. Routes requests to protocols and turns failures into replies.
import { ellipsis } from "../core/ellipsis.ts";
import { HoldfastError, isHoldfastError } from "../core/errors.ts";
import { errorReply, notAllowed, type Channel, type Protocol, type Reply, type Request } from "../core/protocol.ts";
import type { Store } from "../core/store.ts";
import { createAccess, type AccessOptions } from "./access.ts";
import { withoutTokens, type Log } from "./log.ts";
import type { Metrics, MetricsReport } from "./metrics.ts";

/** The protocols served under one prefix: "" or "/NAME". */
export interface Mount {
  prefix: string;
  /** The protocols to try, in this order, until one returns a reply. */
  protocols: Protocol[];
}

/** Without a token, only this machine may use /v1, /metrics and /view. */
export interface AppOptions extends AccessOptions {
  /** The longest matching prefix is tried first. */
  mounts: Mount[];
  /** The store that /readyz checks. */
  store: Store;
  metrics: Metrics;
  log: Log;
  /** The path below which another server serves the app, such as "/holdfast". Default: none. */
  at?: string;
  /** Collects the metrics from the other processes behind the same port. */
  peers?: (own: MetricsReport) => Promise<MetricsReport[]>;
}

export interface App {
  /** Never rejects. */
  handle(request: Request): Promise<Reply>;
  /** Accepts a WebSocket, or refuses it with a reply. Never throws. */
  connect(request: Request): Channel | Reply;
  /** Builds the reply for a request that is refused before routing. */
  refuse(request: Request, error: HoldfastError): Reply;
  /** Makes /readyz fail. */
  stop(): void;
  readonly metrics: Metrics;
  readonly log: Log;
}

const methods = new Set(["GET", "POST", "PUT", "PATCH", "DELETE"]);
const ownPaths = new Set(["/healthz", "/readyz", "/metrics"]);
const readyWithin = 2_000;

/** Serves protocols, without a port. */
export function createApp({ mounts, at = "", store, metrics, log, peers, ...access }: AppOptions): App {
  const routes = [...mounts].sort((a, b) => b.prefix.length - a.prefix.length);
  const { authorize, userIn, corsHeaders } = createAccess(access);
  const { token } = access;
  let stopping = false;

  /** Serves the server's own paths. */
  async function own(request: Request): Promise<Reply> {
    const isMetrics = request.path === "/metrics";
    const user = authorize(request, isMetrics);
    if (isMetrics && user !== undefined) throw foreignUser(user, request.method, request.path);
    if (request.method !== "GET") throw notAllowed(request.path, request.method, ["GET"]);
    if (request.path === "/healthz") return { status: 200, body: { status: "ok" } };
    if (request.path === "/readyz") return ready();
    return {
      status: 200,
      headers: { "content-type": metrics.contentType },
      text: await metrics.text(await peers?.(await metrics.report())),
    };
  }

  async function ready(): Promise<Reply> {
    if (stopping) throw new HoldfastError("server_stopping", "the server is shutting down");
    if (metrics.inflight > metrics.places)
      throw new HoldfastError("too_busy", "the server is handling its maximum number of requests");
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const error = new HoldfastError("store_failed", `the store did not answer within ${readyWithin} ms`);
      timer = setTimeout(() => reject(error), readyWithin);
    });
    try {
      await Promise.race([store.read("holdfast:ready", 0, 1), late]);
    } catch (cause) {
      if (isHoldfastError(cause) && cause.status === 503) throw cause;
      const why = isHoldfastError(cause) ? cause.message : "the store does not answer";
      throw new HoldfastError("store_failed", why, { cause });
    } finally {
      clearTimeout(timer);
    }
    return { status: 200, body: { status: "ok" } };
  }

  /**
   * Tries the protocols in every mount that contains the path. While a mount is tried, `request.path` is relative to
   * it.
   */
  async function routed(request: Request, path: string): Promise<Reply> {
    if (!methods.has(request.method)) throw notAllowed("the server", request.method, [...methods]);
    for (const mount of routes) {
      if (!entered(request, path, mount)) continue;
      for (const protocol of mount.protocols) {
        if (request.user !== undefined && !protocol.servesUsers) continue;
        const handling = protocol.handle(request);
        const reply = handling && (await handling);
        if (reply) return request.user === undefined ? reply : untilExpired(request, reply);
      }
    }
    if (request.user !== undefined) throw foreignUser(request.user, request.method, path);
    throw new HoldfastError("not_found", `no route matches ${request.method} ${ellipsis(withoutTokens(path), 200)}`);
  }

  /** Checks the access to a mount and makes the path relative to it. Returns false if the path is outside it. */
  function entered(request: Request, path: string, { prefix, protocols }: Mount): boolean {
    const rest = within(prefix, path);
    if (rest === undefined) return false;
    const guarded = guardedIn(rest);
    // With a token, everyone may load the viewer, which asks for the token. A POST to "/view" may call a tool.
    const isPage = guarded === "view" && request.method === "GET" && token === undefined;
    const isGuarded = guarded === "v1" && !protocols.some((protocol) => protocol.checksToken?.(rest));
    const user = authorize(request, isGuarded || isPage);
    if (user !== undefined) request.user = user;
    request.path = rest;
    return true;
  }

  /** Ends a stream once the user's token has expired, before the next event. A run that the user began may finish. */
  function untilExpired(request: Request, reply: Reply): Reply {
    const { stream, isRun } = reply;
    if (!stream || isRun) return reply;
    const following = async function* (): AsyncGenerator<string> {
      for await (const event of stream) {
        if (userIn(request) === undefined) return;
        yield event;
      }
    };
    return { ...reply, stream: following() };
  }

  function connected(request: Request, path: string): Channel {
    for (const mount of routes) {
      if (!entered(request, path, mount)) continue;
      for (const protocol of mount.protocols) {
        if (request.user !== undefined && !protocol.servesUsers) continue;
        const channel = protocol.connect?.(request);
        if (channel) return channel;
      }
    }
    if (request.user !== undefined) throw foreignUser(request.user, "a WebSocket at", path);
    throw new HoldfastError("not_found", `there is no WebSocket at ${ellipsis(withoutTokens(path), 200)}`);
  }

  /** Lets the mount's protocols add their headers to an error reply from the server. */
  function decorated(request: Request, path: string, reply: Reply): Reply {
    const mount = routes.find(({ prefix }) => within(prefix, path) !== undefined);
    if (!mount) return reply;
    request.path = within(mount.prefix, path) ?? path;
    return mount.protocols.reduce((reply, protocol) => decoratedBy(protocol, request, reply), reply);
  }

  function decoratedBy(protocol: Protocol, request: Request, reply: Reply): Reply {
    if (!protocol.decorate) return reply;
    try {
      return protocol.decorate(request, reply);
    } catch (thrown) {
      log.error(`decorate of ${protocol.name} failed`, thrown);
      return reply;
    }
  }

  function finished(request: Request, path: string, reply: Reply, start: number, thrown?: unknown): Reply {
    metrics.request(reply.status);
    const cors = corsHeaders(request);
    if (cors) reply.headers = { ...reply.headers, ...cors };
    if (at !== "" && reply.headers) reply.headers = movedHeaders(reply.headers, at);
    const { session, call = request.headers["idempotency-key"], rollout = findRollout(path) } = reply.about ?? {};
    const ms = performance.now() - start;
    log.request({ method: request.method, path, status: reply.status, ms, session, call, rollout, thrown });
    return reply;
  }

  return {
    metrics,
    log,
    async handle(request) {
      const start = performance.now();
      const { path } = request;
      try {
        const cors = request.method === "OPTIONS" ? corsHeaders(request) : undefined;
        if (cors) return finished(request, path, { status: 204 }, start);
        const reply = await (ownPaths.has(path) ? own(request) : routed(request, path));
        return finished(request, path, reply, start, reply.thrown);
      } catch (thrown) {
        return finished(request, path, decorated(request, path, failureReply(thrown)), start, thrown);
      }
    },
    connect(request) {
      const { path } = request;
      try {
        const channel = connected(request, path);
        finished(request, path, { status: 101 }, performance.now());
        return channel;
      } catch (thrown) {
        return finished(request, path, failureReply(thrown), performance.now(), thrown);
      }
    },
    refuse(request, error) {
      const { path } = request;
      return finished(request, path, decorated(request, path, failureReply(error)), performance.now(), error);
    },
    stop() {
      stopping = true;
    },
  };
}

/** Returns the path relative to a prefix, or undefined when it is outside. */
function within(prefix: string, path: string): string | undefined {
  if (prefix === "") return path;
  if (!path.startsWith(prefix)) return undefined;
  if (path.length === prefix.length) return "/";
  return path[prefix.length] === "/" ? path.slice(prefix.length) : undefined;
}

/** Puts the paths in a reply's headers below the app's own path. */
function movedHeaders(headers: { [name: string]: string }, at: string): { [name: string]: string } {
  const { "set-cookie": cookie, location } = headers;
  return {
    ...headers,
    ...(cookie !== undefined && { "set-cookie": cookie.replace("; Path=/;", `; Path=${at};`) }),
    ...(location?.startsWith("/") && { location: at + location }),
  };
}

function foreignUser(user: string, method: string, path: string): HoldfastError {
  const what = `${method} ${ellipsis(path, 200)}`;
  const message = `the token of user ${user} opens only this user's conversations; ${what} needs the server's own token`;
  return new HoldfastError("foreign_user", message);
}

/** Returns the guarded folder that contains the path ("v1" or "view"), even if the path is percent-encoded. */
function guardedIn(path: string): string | undefined {
  // Fast path: most paths are tools, which are not guarded.
  if (!/^\/[/%v]/i.test(path)) return undefined;
  let plain = path;
  if (path.includes("%")) {
    try {
      plain = decodeURIComponent(path);
    } catch {
      return "v1";
    }
  }
  return /^\/+(v1|view)(?:\/|$)/i.exec(plain)?.[1]?.toLowerCase();
}

/** Turns a failure into a reply. An error without a code shows no details, because its message may contain secrets. */
function failureReply(thrown: unknown): Reply {
  if (isHoldfastError(thrown)) return errorReply(thrown);
  return errorReply(
    new HoldfastError("internal", "internal server error; the server's log has the cause", { cause: thrown }),
  );
}

const findRollout = (path: string): string | undefined => {
  if (!path.includes("/ng-rollout/")) return undefined;
  return /\/ng-rollout\/([A-Za-z0-9._-]{1,200})(?:\/|$)/.exec(withoutTokens(path))?.[1];
};
