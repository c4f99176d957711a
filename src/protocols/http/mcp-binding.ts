// How an MCP client identifies its session: with a signed token in the path, in a header or in a cookie.
import { randomBytes } from "node:crypto";
import { ellipsis } from "../../core/ellipsis.ts";
import { invalidOption } from "../../core/errors.ts";
import type { Request, Tokens } from "../../core/protocol.ts";
import { parseCookie, readCookies } from "./cookie.ts";

export interface Binding {
  session: string;
  /** True if an unbound client got the session from `initialize`. Only that client uses the session, and may end it. */
  isOwn: boolean;
  /** The tools that the client may use. Undefined for all. */
  tools: readonly string[] | undefined;
  /** The cookie that binds the client, as `name=value`. Replies repeat it, because gym agents drop older cookies. */
  cookie?: string;
}

/** How an MCP client connects to a session, with the field names that NeMo Gym and verifiers use. */
export interface McpAddress {
  server_name: string;
  url_path: string;
  transport: "http";
  headers: { [name: string]: string };
  /** A path that contains the token, for clients that take only a URL. */
  bound_url_path: string;
  /** The path at which a harness reaches the session's model, if the server has one. */
  model_url_path?: string;
}

const header = "x-nemo-gym-session-token";

// Session ids contain no dot, so these marks are unambiguous. The gym protocol ignores cookies with `boundMark` or
// `ownMark`, because clients with these tokens may call tools, but not seed or verify.
const boundMark = "mcp.";
const ownMark = "own.";
const newMark = "new.";
/** The mark of a gym cookie whose seed allows only some tools. Their names follow the session id. */
export const limitedMark = "gym.";

/** Milliseconds within which the first call may reach another process than `initialize` did. */
const openingTime = 600_000;

/** Matches the paths of this protocol, relative to the mount. */
const pathPattern = /^(?:\/s\/([^/]+))?\/mcp\/?$/;

export const isMcpPath = (path: string): boolean => path.includes("/mcp") && pathPattern.test(path);

/**
 * Checks the names of the tools that a session allows, given as a list or a comma-separated header. Undefined means all
 * tools. One list may serve several environments, so only a list without any of the environment's `tools` is refused.
 */
export function parseToolNames(
  given: readonly string[] | string | undefined,
  tools: ReadonlyMap<string, unknown>,
): readonly string[] | undefined {
  const names = typeof given === "string" ? given.split(",").flatMap((name) => name.trim() || []) : given;
  const wrong = names?.find((name) => !/^[\w-]{1,64}$/.test(name));
  if (wrong !== undefined) throw invalidOption(`${JSON.stringify(ellipsis(wrong, 100))} is not a valid tool name`);
  if (!names || names.length === 0 || names.some((name) => tools.has(name))) return names;
  const known = [...tools.keys()].join(", ") || "none";
  throw invalidOption(`the session would allow no tool: there is no tool "${names[0]}"; the tools are: ${known}`);
}

/** Returns the refusal of a tool that is not on a session's list. */
export const refusalOf = (tool: string, tools: readonly string[]): string =>
  `the tool "${tool}" is not allowed in this session; the allowed tools are: ${tools.join(", ")}`;

/** Issues and reads the tokens that bind MCP clients to one environment's sessions. `at`: the path of the server. */
export function createBindings(environment: string, tokens: Tokens, { hasModel = false, at = "" } = {}) {
  const cookie = `holdfast_${environment.replaceAll("-", "_")}`;
  const [issuer, started] = [randomBytes(3).toString("base64url"), Date.now()];

  function parse(token: string): Binding | undefined {
    const value = tokens.check(token);
    if (value === undefined) return undefined;
    if (value.startsWith(ownMark)) return { session: value.slice(ownMark.length), isOwn: true, tools: undefined };
    if (!value.startsWith(boundMark) && !value.startsWith(limitedMark)) {
      const session = value.startsWith(newMark) ? value.slice(newMark.length) : value;
      return { session, isOwn: false, tools: undefined };
    }
    const [session = "", ...tools] = value.split(".").slice(1);
    return { session, isOwn: false, tools: tools.length > 0 ? tools[0]?.split(",") : undefined };
  }

  return {
    /** Returns a signed session id, for clients that send it with each request. The session may not be opened yet. */
    issueId: (session: string): string => tokens.issue(newMark + session),

    /** Returns the session of a signed id. Undefined if the id is invalid, or if its holder may only call tools. */
    readId(id: string): string | undefined {
      const value = tokens.check(id);
      if (value?.startsWith(newMark)) return value.slice(newMark.length);
      return value?.includes(".") ? undefined : value;
    },
    /** Returns the session that a token names; undefined if the token is invalid. */
    parse,

    /** Returns the token for an unbound client's new session. The session's id says when and where it was issued. */
    issueOwn(session: string): string {
      const at = Date.now().toString(36).padStart(8, "0");
      return tokens.issue(`${ownMark}${session}-${at}${issuer}`);
    },

    /**
     * Returns whether a missing session of an unbound client may be opened. Otherwise, it may have existed, and the store
     * or this process may have lost it since. Then the client has to initialize again.
     */
    mayOpen(session: string): boolean {
      const [, at = "", issuedBy] = /-([0-9a-z]{8})([\w-]{4})$/.exec(session) ?? [];
      const issued = parseInt(at, 36);
      return issuedBy === issuer || (issued >= started && issued > Date.now() - openingTime);
    },

    /** Returns a session's address, for all tools or only the tools from `parseToolNames`. */
    address(session: string, tools?: readonly string[]): McpAddress {
      const allowed = tools === undefined ? "" : `.${tools.join(",")}`;
      const token = tokens.sign(boundMark + session + allowed);
      return {
        server_name: environment,
        url_path: `${at}/${environment}/mcp`,
        transport: "http",
        headers: { "X-NeMo-Gym-Session-Token": token },
        bound_url_path: `${at}/${environment}/s/${token}/mcp`,
        ...(hasModel && { model_url_path: `${at}/${environment}/m/${token}/v1` }),
      };
    },

    /**
     * Returns a request's session; undefined if it names none, or null if its token is invalid. `isOpening`: the
     * request is an `initialize`, so the session id from an earlier `initialize` is ignored.
     */
    find({ path, headers }: Request, isOpening: boolean): Binding | undefined | null {
      const token =
        pathPattern.exec(path)?.[1] ?? headers[header] ?? (isOpening ? undefined : headers["mcp-session-id"]);
      if (token !== undefined) return parse(token) ?? null;
      // Clients send every cookie that a server ever set. So a token in the path or a header takes precedence, and an
      // invalid cookie is ignored.
      for (const value of readCookies(headers["cookie"], cookie)) {
        const found = parse(parseCookie(value).token);
        if (found) return { ...found, cookie: `${cookie}=${value}` };
      }
      return undefined;
    },
  };
}

export type Bindings = ReturnType<typeof createBindings>;
