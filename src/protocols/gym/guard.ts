// gymGuard(): keeps tool names that a model makes up away from a server's other protocols.
import { HoldfastError } from "../../core/errors.ts";
import { errorReply, type Protocol, type Tokens } from "../../core/protocol.ts";
import { ellipsis } from "../../core/ellipsis.ts";
import { keptCookie, parseCookie } from "../http/cookie.ts";

/**
 * Refuses a POST to `/v1`, `/run`, `/openenv` or `/ors` that carries a gym session's cookie. The gym protocol's agents
 * post any tool name that their model makes up, even `v1/sessions/ID/rewind`, with that cookie. Other clients of these
 * paths have no such cookie, except a browser, which identifies itself with `sec-fetch-site`.
 */
export function gymGuard(tokens: Tokens): Protocol {
  return {
    name: "gym guard",
    handle({ method, path, headers }) {
      if (method !== "POST" || headers["cookie"] === undefined || headers["sec-fetch-site"] !== undefined)
        return undefined;
      const [, tool] = /^(?:\/ng-rollout\/[^/]+)?\/((?:v1|openenv|ors)(?:\/.*)?|run)$/s.exec(path) ?? [];
      const cookie = tool === undefined ? undefined : findCookie(headers["cookie"], tokens);
      if (tool === undefined || cookie === undefined) return undefined;
      const reply = errorReply(new HoldfastError("unknown_tool", `there is no tool "${ellipsis(tool, 100)}"`));
      // Sets the cookie again, because agents keep only the last reply's cookies.
      reply.headers = { ...reply.headers, "set-cookie": keptCookie(cookie) };
      return Promise.resolve(reply);
    },
  };
}

/** Returns the first valid gym session cookie, with its name. */
function findCookie(header: string, tokens: Tokens): string | undefined {
  for (const [pair, value = ""] of header.matchAll(/\bholdfast_\w+="?([\w.-]+)"?/g)) {
    if (tokens.check(parseCookie(value).token) !== undefined) return pair.replaceAll('"', "");
  }
  return undefined;
}
