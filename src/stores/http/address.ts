// Parses an HTTP store's URL into the address, the token, and a name for messages without the token.
import { invalidOption } from "../../core/errors.ts";

export interface Address {
  origin: string;
  /** The path before the names of operations: empty, or with a slash only at its start. */
  path: string;
  headers: Record<string, string>;
  /** The address for messages, without the token. */
  shown: string;
}

export function addressOf(given: string): Address {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw invalidOption("`url` must be a service URL, as in https://example.com/store");
  }
  const path = url.pathname.replace(/\/+$/, "");
  const shown = url.origin + path;
  if (url.search !== "" || url.hash !== "") throw invalidOption(`the HTTP store URL ${shown} must not contain ? or #`);
  if (url.password !== "") {
    const message = `the HTTP store ${shown} accepts a token, not a user name and password; write it as in ${tokenIn(url, path)}`;
    throw invalidOption(message);
  }
  const token = url.username === "" ? process.env["HOLDFAST_STORE_TOKEN"]?.trim() : decoded(url.username, shown);
  const headers: Record<string, string> = { "content-type": "application/json", accept: "application/json" };
  if (token !== undefined && token !== "") {
    // Refuses a token that a header cannot hold, because the HTTP client's error message would show the token.
    if (!/^[!-~]+$/.test(token))
      throw invalidOption(`the token for the HTTP store ${shown} must be plain ASCII text without spaces`);
    headers["authorization"] = `Bearer ${token}`;
  }
  return { origin: url.origin, path, headers, shown };
}

const tokenIn = ({ protocol, host }: URL, path: string): string => `${protocol}//TOKEN@${host}${path}`;

function decoded(text: string, shown: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw invalidOption(`the token in the HTTP store URL ${shown} is not percent-encoded correctly`);
  }
}
