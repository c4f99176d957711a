// Access checks: the bearer token, requests from this machine, and pages from other sites.
import { createHash, timingSafeEqual } from "node:crypto";
import { isIP } from "node:net";
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { Request } from "../core/protocol.ts";

// Digests have equal length, so comparing them takes constant time.
const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

/** Returns a function that compares a token with the server's token. */
function bearerCheck(token: string): (given: string) => boolean {
  const wanted = digest(token);
  return (given) => timingSafeEqual(digest(given), wanted);
}

const readBearer = (header: string | undefined): string | undefined =>
  header === undefined ? undefined : /^bearer +(\S+) *$/i.exec(header)?.[1];

/** Matches a list of header names, which a browser sends in its preflight request. */
const isNames = /^[\w!#$%&'*+.^`|~-]+(?: ?, ?[\w!#$%&'*+.^`|~-]+)*$/;
const mostAsked = 2_000;

/** Maximum number and length of the tokens that are remembered as not a user's. */
const mostRefused = 10_000;
const longestRefused = 300;

export interface AccessOptions {
  /** The bearer token for /v1 and /metrics. */
  token?: string | undefined;
  /** Origins of pages that may use the server, such as https://app.example. */
  origins?: readonly string[] | undefined;
  /** Returns the user of a valid user token. Default: there are no user tokens. */
  userOf?: ((token: string) => string | undefined) | undefined;
}

/**
 * Builds a server's checks. A browser adds the page's Origin to every request that can change data. A site can point
 * its own domain at this machine, but then the Host header has that domain. So without the token, a page's origin must
 * be on the list, or have a host name that no site can register.
 */
export function createAccess({ token, origins = [], userOf }: AccessOptions) {
  const isBearer = token === undefined ? undefined : bearerCheck(token);
  const listed = new Set(origins.map((origin) => checkedOrigin(origin)));
  /** Tokens that are not a user's, such as session tokens. They never become valid, and each check costs an HMAC. */
  const refused = new Set<string>();
  const findUser = (given: string | undefined): string | undefined => {
    if (given === undefined || !userOf || refused.has(given)) return undefined;
    const user = userOf(given);
    if (user === undefined && given.length <= longestRefused) {
      if (refused.size >= mostRefused) refused.clear();
      refused.add(given);
    }
    return user;
  };
  return {
    /** Returns the user of a request's token; undefined if it has expired. */
    userIn: ({ headers }: Pick<Request, "headers">): string | undefined =>
      findUser(readBearer(headers["authorization"])),
    /**
     * Refuses requests from pages on other sites. `isGuarded`: the path also requires a token, or a client on this
     * machine. Returns the user if the token is a user's, on every path. On other paths, the token may be of another
     * protocol, so an unknown token is ignored there.
     */
    authorize({ headers }: Pick<Request, "headers">, isGuarded: boolean): string | undefined {
      const { host = "", origin, authorization } = headers;
      const given = readBearer(authorization);
      // Only the checks below need to know the server's token, which costs a hash.
      if (!isGuarded && origin === undefined) return findUser(given);
      const isOwner = given !== undefined && isBearer?.(given) === true;
      const user = isOwner ? undefined : findUser(given);
      const isOurs = isOwner || user !== undefined;
      if (origin !== undefined && !listed.has(origin.toLowerCase())) {
        const isSame = originHost(origin) === host.toLowerCase();
        if (!isSame || !(isOurs || isLocalName(host))) throw foreignOrigin();
      }
      if (!isGuarded || isOurs) return user;
      if (isBearer) {
        const message = "the bearer token is missing or wrong; send the server's token as Authorization: Bearer TOKEN";
        throw new HoldfastError("unauthorized", message);
      }
      if (!isLocalName(host)) throw notLocal();
      return undefined;
    },
    /**
     * Returns the headers that let a page with a listed origin read a reply; undefined for other requests. The page may
     * send any header, because API clients add their own, such as x-stainless-os.
     */
    corsHeaders({ headers }: Pick<Request, "headers">): { [name: string]: string } | undefined {
      const { origin, "access-control-request-headers": asked = "" } = headers;
      if (origin === undefined || !listed.has(origin.toLowerCase())) return undefined;
      return {
        "access-control-allow-origin": origin,
        "access-control-allow-credentials": "true",
        "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
        ...(asked.length <= mostAsked && isNames.test(asked) && { "access-control-allow-headers": asked }),
        "access-control-expose-headers": "holdfast-repeated, holdfast-session, mcp-session-id",
        "access-control-max-age": "600",
        vary: "Origin, Access-Control-Request-Headers",
      };
    },
  };
}

function checkedOrigin(origin: string): string {
  if (originHost(origin) !== undefined) return origin.toLowerCase();
  throw invalidOption(
    `${JSON.stringify(origin)} is not a valid origin; use a scheme and a host, as in https://app.example`,
  );
}

/**
 * Accepts names that a site cannot register, with or without a port: an IP address, or localhost and its subdomains.
 */
function isLocalName(host: string): boolean {
  const [, bracketed, plain] = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::\d{1,5})?$/i.exec(host) ?? [];
  if (bracketed !== undefined) return isIP(bracketed) === 6;
  return plain !== undefined && (isIP(plain) === 4 || /^(?:[a-z0-9-]+\.)*localhost$/i.test(plain));
}

/** Returns the host and port from an Origin, in a Host header's format. */
const originHost = (origin: string): string | undefined => /^https?:\/\/([^/]+)$/i.exec(origin)?.[1]?.toLowerCase();

function notLocal(): HoldfastError {
  const why = "the Host header of this request has another name";
  const remedy = "use 127.0.0.1 and the port, or start the server with a token (--token) to allow other hosts";
  return new HoldfastError(
    "not_local",
    `a server without a token must be addressed as localhost or by an IP address, but ${why}; ${remedy}`,
  );
}

function foreignOrigin(): HoldfastError {
  const message =
    "the request comes from a web page of another site; to allow that site, start the server with --allow-origin";
  return new HoldfastError("foreign_origin", message);
}
