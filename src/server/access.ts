// Access checks: the bearer token of a server, or requests from this machine only.
import { createHash, timingSafeEqual } from "node:crypto";
import { isIP } from "node:net";
import { HoldfastError } from "../core/errors.ts";
import type { Request } from "../core/protocol.ts";

// Digests have equal length, so the comparison takes constant time.
const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

/** Returns a check of an Authorization header against the token. */
export function bearerCheck(token: string): (header: string | undefined) => boolean {
  const wanted = digest(token);
  return (header) => {
    const [, given] = /^bearer +(\S+) *$/i.exec(header ?? "") ?? [];
    return given !== undefined && timingSafeEqual(digest(given), wanted);
  };
}

/**
 * Limits a server without a token to this machine. Refuses requests that a page of another site can make a browser
 * send. A site can point its own name at this machine, but then the Host header has that name. A request from a page to
 * another site carries the page's Origin.
 */
export function assertLocal({ headers: { host = "", origin } }: Pick<Request, "headers">): void {
  if (!isLocalName(host)) {
    throw refusal("it is asked for by another name than localhost or an address of this machine");
  }
  if (origin !== undefined && originHost(origin) !== host.toLowerCase()) {
    throw refusal("the request comes from a page of another site");
  }
}

/**
 * Accepts names that a site cannot register, with or without a port: an IP address, or localhost and its subdomains.
 */
function isLocalName(host: string): boolean {
  const [, bracketed, plain] = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::\d{1,5})?$/i.exec(host) ?? [];
  if (bracketed !== undefined) return isIP(bracketed) === 6;
  return plain !== undefined && (isIP(plain) === 4 || /^(?:[a-z0-9-]+\.)*localhost$/i.test(plain));
}

/** Returns the host and port of an Origin, in the format of a Host header. */
const originHost = (origin: string): string | undefined => /^https?:\/\/([^/]+)$/i.exec(origin)?.[1]?.toLowerCase();

function refusal(why: string): HoldfastError {
  const remedy =
    "open it by 127.0.0.1 and its port, or start the server with a token (--token) to allow it from anywhere";
  return new HoldfastError("not_local", `a server without a token answers to this machine only, and ${why}: ${remedy}`);
}
