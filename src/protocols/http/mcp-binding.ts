// How an MCP client identifies its session: with a signed token in the path, in a header or in a cookie.
import { ellipsis } from "../../core/ellipsis.ts";
import { invalidOption } from "../../core/errors.ts";
import type { Request, Tokens } from "../../core/protocol.ts";
import { parseCookie, readCookies } from "./cookie.ts";

export interface Binding {
  session: string;
  /**
   * True if an unbound client got the session from `initialize`. Only that client uses the session, and it may end it.
   */
  isOwn: boolean;
  /** The tools that the client may use. Undefined for all. */
  tools: readonly string[] | undefined;
  /** The cookie that binds the client, with its name. Gym agents keep only the last reply's cookies. */
  cookie?: string;
}

/** Where and how an MCP client reaches a session, in NeMo Gym's and verifiers' terms. */
export interface McpAddress {
  server_name: string;
  url_path: string;
  transport: "http";
  headers: { [name: string]: string };
  /** A path that contains the token, for clients that take only a URL. */
  bound_url_path: string;
}

const header = "x-nemo-gym-session-token";

// Session ids contain no dot, so these marks are unambiguous. The gym protocol accepts neither as a cookie, because a
// client with such a token may call tools, but not seed or verify.
const boundMark = "mcp.";
const ownMark = "own.";
const newMark = "new.";
/** The mark of a gym cookie whose seed allows only some tools: they follow the session. */
export const limitedMark = "gym.";

/** Matches the paths of this protocol, relative to the mount. */
const pathPattern = /^(?:\/s\/([^/]+))?\/mcp\/?$/;

export const isMcpPath = (path: string): boolean => path.includes("/mcp") && pathPattern.test(path);

/**
 * Checks the names of the tools that a session allows, given as a list or a comma-separated header. Undefined means all
 * tools.
 */
export function parseToolNames(given: readonly string[] | string | undefined): readonly string[] | undefined {
  const names = typeof given === "string" ? given.split(",").flatMap((name) => name.trim() || []) : given;
  const wrong = names?.find((name) => !/^[\w-]{1,64}$/.test(name));
  if (wrong === undefined) return names;
  throw invalidOption(`${JSON.stringify(ellipsis(wrong, 100))} is not a valid name of a tool`);
}

/** Returns the refusal of a tool that is not on a session's list. */
export const refusalOf = (tool: string, tools: readonly string[]): string =>
  `the tool "${tool}" is not allowed in this session; the allowed tools are: ${tools.join(", ")}`;

/** Issues and reads the tokens that bind MCP clients to one environment's sessions. */
export function createBindings(environment: string, tokens: Tokens) {
  const cookie = `holdfast_${environment.replaceAll("-", "_")}`;

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
    /** Returns the token for an unbound client's new session. */
    issueOwn: (session: string): string => tokens.issue(ownMark + session),

    /** Returns a session's address, for all tools or only the tools from `parseToolNames`. */
    address(session: string, tools?: readonly string[]): McpAddress {
      const allowed = tools === undefined ? "" : `.${tools.join(",")}`;
      const token = tokens.issue(boundMark + session + allowed);
      return {
        server_name: environment,
        url_path: `/${environment}/mcp`,
        transport: "http",
        headers: { "X-NeMo-Gym-Session-Token": token },
        bound_url_path: `/${environment}/s/${token}/mcp`,
      };
    },

    /**
     * Returns a request's session; undefined if it names none, or null if its token is invalid. `isOpening`: the
     * request is an `initialize`, which ends the session from an earlier one.
     */
    find({ path, headers }: Request, isOpening: boolean): Binding | undefined | null {
      const token =
        pathPattern.exec(path)?.[1] ?? headers[header] ?? (isOpening ? undefined : headers["mcp-session-id"]);
      if (token !== undefined) return parse(token) ?? null;
      // Clients send every cookie that a server ever set. So a token elsewhere takes precedence, and an invalid cookie
      // is ignored.
      for (const value of readCookies(headers["cookie"], cookie)) {
        const found = parse(parseCookie(value).token);
        if (found) return { ...found, cookie: `${cookie}=${value}` };
      }
      return undefined;
    },
  };
}

export type Bindings = ReturnType<typeof createBindings>;
