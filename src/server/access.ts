// Access checks: the bearer token, requests from this machine, and pages from other sites.
import { createHash, timingSafeEqual } from "node:crypto";
import { isIP } from "node:net";
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { Request } from "../core/protocol.ts";

// Digests have equal length, so comparing them takes constant time.
const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

/** Returns a function that checks an Authorization header against the token. */
function bearerCheck(token: string): (header: string | undefined) => boolean {
  const wanted = digest(token);
  return (header) => {
    const [, given] = /^bearer +(\S+) *$/i.exec(header ?? "") ?? [];
    return given !== undefined && timingSafeEqual(digest(given), wanted);
  };
}

/** The headers that a page may send. */
const sentHeaders =
  "authorization, content-type, holdfast-episode, holdfast-tools, idempotency-key, last-event-id, mcp-method, mcp-name, " +
  "mcp-protocol-version, mcp-session-id, x-nemo-gym-session-token";

export interface AccessOptions {
  /** The bearer token for /v1 and /metrics. */
  token?: string | undefined;
  /** Origins of pages that may use the server, such as https://app.example. */
  origins?: readonly string[] | undefined;
}

/**
 * Builds a server's checks. A browser adds the page's Origin to every request that can change something. A site can
 * point its own name at this machine, but then the Host header has that name. So without the token, a page must be on
 * the list, or come from a name that no site can register.
 */
export function createAccess({ token, origins = [] }: AccessOptions) {
  const isBearer = token === undefined ? undefined : bearerCheck(token);
  const listed = new Set(origins.map((origin) => checkedOrigin(origin)));
  return {
    /**
     * Refuses requests from pages on other sites. `isGuarded`: the path also requires the token, or a client on this
     * machine.
     */
    assertAllowed({ headers }: Pick<Request, "headers">, isGuarded: boolean): void {
      const { host = "", origin, authorization } = headers;
      const isOurs = isGuarded && isBearer?.(authorization) === true;
      if (origin !== undefined && !listed.has(origin.toLowerCase())) {
        const isSame = originHost(origin) === host.toLowerCase();
        if (!isSame || !(isOurs || isLocalName(host))) throw foreignOrigin();
      }
      if (!isGuarded || isOurs) return;
      if (isBearer) {
        const message = "the bearer token is missing or wrong; send the server's token as Authorization: Bearer TOKEN";
        throw new HoldfastError("unauthorized", message);
      }
      if (!isLocalName(host)) throw notLocal();
    },
    /** The headers that let a page on the list read a reply; undefined for every other request. */
    corsHeaders({ headers: { origin } }: Pick<Request, "headers">): { [name: string]: string } | undefined {
      if (origin === undefined || !listed.has(origin.toLowerCase())) return undefined;
      return {
        "access-control-allow-origin": origin,
        "access-control-allow-credentials": "true",
        "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
        "access-control-allow-headers": sentHeaders,
        "access-control-expose-headers": "holdfast-repeated, holdfast-session, mcp-session-id",
        "access-control-max-age": "600",
        vary: "Origin",
      };
    },
  };
}

function checkedOrigin(origin: string): string {
  if (originHost(origin) !== undefined) return origin.toLowerCase();
  throw invalidOption(`an origin is a scheme and a host, as in https://app.example, not ${JSON.stringify(origin)}`);
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
  const why = "the request has another name than localhost or an address of this machine";
  const remedy =
    "open it by 127.0.0.1 and its port, or start the server with a token (--token) to allow it from anywhere";
  return new HoldfastError(
    "not_local",
    `without a token, the server accepts requests only from this machine; ${why}: ${remedy}`,
  );
}

function foreignOrigin(): HoldfastError {
  const message =
    "the request comes from a page of another site; --allow-origin names the sites that may use this server";
  return new HoldfastError("foreign_origin", message);
}
