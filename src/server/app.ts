// createApp(): a request in, a reply out. Routes to the protocols, and makes a reply of whatever goes wrong.
import { HoldfastError, isHoldfastError } from "../core/errors.ts";
import { errorReply, type Protocol, type Reply, type Request } from "../core/protocol.ts";
import type { Store } from "../core/store.ts";
import { bearerCheck } from "./bearer.ts";
import { assertLocal } from "./local-only.ts";
import type { Log } from "./log.ts";
import type { Metrics, MetricsReport } from "./metrics.ts";

/** What is served under a prefix: "" or "/NAME". */
export interface Mount {
  prefix: string;
  /** Asked in this order; the first that has a reply gives it. */
  protocols: Protocol[];
}

export interface AppOptions {
  /** The longest prefix that fits is asked first. */
  mounts: Mount[];
  /** Asked by /readyz. */
  store: Store;
  metrics: Metrics;
  log: Log;
  /** What /v1 and /metrics want as a bearer token. Without one they, /view and all that pages ask are for this machine only. */
  token?: string;
  /** What other processes behind the same port have counted. */
  peers?: (own: MetricsReport) => Promise<MetricsReport[]>;
}

export interface App {
  /** Never rejects. */
  handle(request: Request): Promise<Reply>;
  /** The reply to a request that is not even looked at. */
  refuse(request: Request, error: HoldfastError): Reply;
  /** Makes /readyz say no. */
  stop(): void;
  readonly metrics: Metrics;
  readonly log: Log;
}

const methods = new Set(["GET", "POST", "PUT", "PATCH", "DELETE"]);
const ownPaths = new Set(["/healthz", "/readyz", "/metrics"]);
const readyWithin = 2_000;

/** What a protocol threw, with the protocol: it alone knows what its replies carry. */
interface Failed {
  thrown: unknown;
}

/**
 * Serves protocols, without a port: `listen` gives it one.
 *
 * @example
 * const app = createApp({ mounts: [{ prefix: "", protocols: [gym, rest] }], store, metrics, log });
 * const { status, body } = await app.handle(request);
 */
export function createApp({ mounts, store, metrics, log, token, peers }: AppOptions): App {
  const routes = [...mounts].sort((a, b) => b.prefix.length - a.prefix.length);
  const authorized = token === undefined ? undefined : bearerCheck(token);
  let stopping = false;

  function assertAllowed(request: Request): void {
    if (!authorized) assertLocal(request);
    else if (!authorized(request.headers["authorization"])) {
      throw new HoldfastError("unauthorized", "send the token of this server: Authorization: Bearer TOKEN");
    }
  }

  /** The server's own paths. */
  async function own(request: Request): Promise<Reply | undefined> {
    switch (request.path) {
      case "/healthz":
        assertReading(request);
        return { status: 200, body: { status: "ok" } };
      case "/readyz":
        assertReading(request);
        return ready();
      case "/metrics":
        assertReading(request);
        assertAllowed(request);
        return {
          status: 200,
          headers: { "content-type": metrics.contentType },
          text: await metrics.text(await peers?.(await metrics.report())),
        };
      default:
        return undefined;
    }
  }

  async function ready(): Promise<Reply> {
    if (stopping) throw new HoldfastError("server_stopping", "the server is shutting down");
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const error = new HoldfastError("store_failed", `the store did not answer within ${readyWithin} ms`);
      timer = setTimeout(() => reject(error), readyWithin);
    });
    try {
      await Promise.race([store.read("holdfast:ready", 0, 1), late]);
    } catch (cause) {
      if (isHoldfastError(cause) && cause.status === 503) throw cause;
      throw new HoldfastError("store_failed", "the store does not answer", { cause });
    } finally {
      clearTimeout(timer);
    }
    return { status: 200, body: { status: "ok" } };
  }

  /** Asks the protocols of the mounts that the path is under. The path is theirs while they are asked. */
  async function routed(request: Request, path: string): Promise<Reply | Failed | undefined> {
    for (const mount of routes) {
      const rest = within(mount.prefix, path);
      if (rest === undefined) continue;
      const guarded = guardedIn(rest);
      // The page itself has no secrets, and asks for the token. By other methods it may be a tool's name.
      const isPage = guarded === "view" && request.method === "GET";
      if (guarded === "v1" || (isPage && !authorized)) assertAllowed(request);
      // Programs call the rest by whatever name they know. Only pages send an Origin, and those of others call nothing here.
      else if (!authorized && request.headers["origin"] !== undefined) assertLocal(request);
      request.path = rest;
      for (const protocol of mount.protocols) {
        try {
          const reply = await protocol.handle(request);
          if (reply) return reply;
        } catch (thrown) {
          return { thrown };
        }
      }
    }
    return undefined;
  }

  /** Has the protocols of the mount add what is theirs to a reply that none of them made. */
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

  async function replyTo(request: Request, path: string): Promise<{ reply: Reply; thrown?: unknown }> {
    try {
      const ask = ownPaths.has(path) ? own : methods.has(request.method) ? routed : undefined;
      const found = await ask?.(request, path);
      if (found && "status" in found) return { reply: found, thrown: found.thrown };
      if (found) {
        const { thrown } = found;
        return { reply: decorated(request, path, failureReply(thrown)), thrown };
      }
      const thrown = methods.has(request.method)
        ? new HoldfastError("not_found", `nothing is served at ${request.method} ${shortened(path)}`)
        : notAllowed(request.method, [...methods]);
      return { reply: decorated(request, path, failureReply(thrown)), thrown };
    } catch (thrown) {
      return { reply: decorated(request, path, failureReply(thrown)), thrown };
    }
  }

  function finished(request: Request, path: string, reply: Reply, start: number, thrown?: unknown): Reply {
    metrics.request(reply.status);
    const { session, call = request.headers["idempotency-key"], rollout = rolloutOf(path) } = reply.about ?? {};
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
      const { reply, thrown } = await replyTo(request, path);
      return finished(request, path, reply, start, thrown);
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

/** The path below a prefix, if it is below it. */
function within(prefix: string, path: string): string | undefined {
  if (prefix === "") return path;
  if (!path.startsWith(prefix)) return undefined;
  if (path.length === prefix.length) return "/";
  return path[prefix.length] === "/" ? path.slice(prefix.length) : undefined;
}

/** What of the guarded paths a path is under, however it is written. */
function guardedIn(path: string): string | undefined {
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

function assertReading({ method }: Request): void {
  if (method !== "GET") throw notAllowed(method, ["GET"]);
}

function notAllowed(method: string, allow: string[]): HoldfastError {
  const message = `${shortened(method)} is not served here; ${allow.join(", ")} may be`;
  return new HoldfastError("method_not_allowed", message, { detail: { allow } });
}

/** The reply that a failure becomes. What is not ours shows nothing of itself: it may have secrets in it. */
function failureReply(thrown: unknown): Reply {
  if (isHoldfastError(thrown)) return errorReply(thrown);
  return errorReply(new HoldfastError("internal", "the server failed; its log says more", { cause: thrown }));
}

const rolloutOf = (path: string): string | undefined => {
  if (!path.includes("/ng-rollout/")) return undefined;
  return /\/ng-rollout\/([A-Za-z0-9._-]{1,200})(?:\/|$)/.exec(path)?.[1];
};

const shortened = (text: string): string => (text.length > 200 ? `${text.slice(0, 200)}…` : text);
