// assertLocal(): a server without a token is for this machine. Pages of other sites must not reach it through a browser.
import { isIP } from "node:net";
import { HoldfastError } from "../core/errors.ts";
import type { Request } from "../core/protocol.ts";

/**
 * Refuses what a page of another site can make a browser send. A site can have its own name lead to this machine, but then
 * that name is the Host; and whatever a page asks of another one has the page's Origin.
 */
export function assertLocal({ headers: { host = "", origin } }: Pick<Request, "headers">): void {
  if (!isLocalName(host)) {
    throw refusal("it is asked for by another name than localhost or an address of this machine");
  }
  if (origin !== undefined && originHost(origin) !== host.toLowerCase()) {
    throw refusal("the request comes from a page of another site");
  }
}

/** A name that no site can have, with or without a port: an address, localhost or below that. */
function isLocalName(host: string): boolean {
  const [, bracketed, plain] = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::\d{1,5})?$/i.exec(host) ?? [];
  if (bracketed !== undefined) return isIP(bracketed) === 6;
  return plain !== undefined && (isIP(plain) === 4 || /^(?:[a-z0-9-]+\.)*localhost$/i.test(plain));
}

/** The host and port of an Origin, as they are in a Host. */
const originHost = (origin: string): string | undefined => /^https?:\/\/([^/]+)$/i.exec(origin)?.[1]?.toLowerCase();

function refusal(why: string): HoldfastError {
  const remedy =
    "open it by 127.0.0.1 and its port, or start the server with a token (--token) to allow it from anywhere";
  return new HoldfastError("not_local", `a server without a token answers to this machine only, and ${why}: ${remedy}`);
}
