// createGymClient(): a client with cookies for servers that speak the gym protocol, Holdfast's and other servers.
import { ellipsis } from "../core/ellipsis.ts";
import { errorTable, HoldfastError, invalidOption, type ErrorCode } from "../core/errors.ts";
import { copyJson, isObject, type Json } from "../core/json.ts";
import type { ToolSchema } from "../core/model.ts";
import type { TaskRow } from "../core/rollout.ts";
import { exchange, ExchangeError, type Answer, type ExchangeRequest } from "../io/exchange.ts";
import { hideSecrets } from "../io/hide-secrets.ts";
import { derivedId } from "../agent/episodes.ts";

/** Cookies by name. They grant access to the session. */
export type Cookies = { [name: string]: string };

export interface GymPost {
  path: string;
  body: Json;
  cookies?: Cookies | undefined;
  /** Sent as the `Idempotency-Key`. Holdfast's servers apply a call id once; other servers may ignore the header. */
  once?: string | undefined;
  signal: AbortSignal;
}

export interface GymReply {
  status: number;
  text: string;
  /** The cookies that were sent, updated by the reply. */
  cookies: Cookies;
}

export interface GymClient {
  /** The address without a trailing slash. */
  readonly root: string;
  /** Returns every reply, including refusals. Throws `server_failed` if there is no reply, or the signal's reason. */
  post(request: GymPost): Promise<GymReply>;
  /** Returns the tools listed by `GET /v1/environment`, which only Holdfast's servers have. Sends one request. */
  tools(): Promise<ToolSchema[]>;
}

/** Default timeout in milliseconds: ten minutes, because tools can be slow. */
export const defaultTimeout = 600_000;
const defaultIdle = 120_000;
const defaultLargest = 64 * 1024 * 1024;
/** Milliseconds that a server may take to list its tools. */
const toolsTimeout = 60_000;

export interface GymClientOptions {
  /** Additional headers for every request, such as trace headers. */
  headers?: (() => { [name: string]: string }) | undefined;
  /** Milliseconds within which a reply must be complete; ten minutes by default. */
  timeout?: number | undefined;
  /** Maximum milliseconds between two parts of a reply; two minutes by default. */
  idle?: number | undefined;
  /** Maximum size of a reply in bytes; 64 MB by default. */
  largest?: number | undefined;
}

export function createGymClient(url: string, options: GymClientOptions = {}): GymClient {
  const { headers = () => ({}), timeout = defaultTimeout, idle = defaultIdle, largest = defaultLargest } = options;
  if (!/^https?:\/\/./.test(url) || !URL.canParse(url)) {
    throw invalidOption(
      `"${hideSecrets(url, "…")}" is not a valid server URL; use a URL such as http://localhost:8080`,
    );
  }
  const root = url.replace(/\/+$/, "");
  const { origin, pathname, username, password } = new URL(root);
  // Rows, logs and messages contain the URL.
  if (username + password !== "") {
    const message =
      "the URL of a server must not contain a user, password or token, because it is stored with the rows";
    throw new HoldfastError("invalid_agent", message);
  }
  const prefix = pathname.replace(/\/+$/, "");
  let asked: Promise<ToolSchema[]> | undefined;

  async function send(path: string, request: Omit<ExchangeRequest, "origin" | "path">) {
    try {
      return await exchange({ ...request, origin, path: prefix + path }, async (answer) => ({
        status: answer.status,
        set: [answer.headers["set-cookie"] ?? []].flat(),
        text: await textOf(answer),
      }));
    } catch (thrown) {
      if (!(thrown instanceof ExchangeError)) throw thrown;
      throw new HoldfastError("server_failed", `the server at ${root} ${thrown.message}`, { cause: thrown });
    }
  }

  async function askTools(): Promise<ToolSchema[]> {
    const limits = { timeout: toolsTimeout, idle, largest };
    const { status, text } = await send("/v1/environment", { method: "GET", headers: {}, limits });
    const { tools } = Object(status === 200 ? parseOutput(text) : undefined) as { tools?: unknown };
    if (Array.isArray(tools)) return (tools as Described[]).map(toSchema);
    const message = `the server at ${root} does not list its tools; name them in the tasks or in the option \`tools\``;
    throw new HoldfastError("invalid_agent", message);
  }

  return {
    root,
    async post({ path, body, cookies = {}, once, signal }) {
      const pairs = Object.entries(cookies).map(([name, value]) => `${name}=${value}`);
      const { status, text, set } = await send(path, {
        method: "POST",
        headers: {
          ...headers(),
          ...(body !== null && { "content-type": "application/json" }),
          ...(pairs.length > 0 && { cookie: pairs.join("; ") }),
          ...(once !== undefined && { "idempotency-key": headerText(once) }),
        },
        // null means no body, as other agents send it.
        body: body === null ? null : JSON.stringify(body),
        limits: { timeout, idle, largest },
        signal,
      });
      return { status, text, cookies: mergedCookies(cookies, set) };
    },
    tools() {
      asked ??= askTools();
      asked.catch(() => (asked = undefined));
      return asked;
    },
  };
}

/** Reads a body as it arrives, because only a stream allows a time limit between parts. Replaces invalid UTF-8. */
async function textOf(answer: Answer): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of answer.stream()) parts.push(part);
  return new TextDecoder().decode(Buffer.concat(parts));
}

/** Returns the code and message from a Holdfast server's refusal; undefined for any other text. */
export function errorIn(text: string): { code: ErrorCode; message: string } | undefined {
  const { code, message } = Object(Object(parseOutput(text))["error"]) as { code?: unknown; message?: unknown };
  if (typeof code !== "string" || !Object.hasOwn(errorTable, code)) return undefined;
  return { code: code as ErrorCode, message: typeof message === "string" ? message : code };
}

/** Merges cookies. A reply without cookies changes nothing, because many servers set no cookies with an error. */
function mergedCookies(cookies: Cookies, set: string[]): Cookies {
  const merged = { ...cookies };
  for (const line of set) {
    const [, name, value] = /^\s*([^=;\s]+)\s*=\s*([^;]*)/.exec(line) ?? [];
    if (name === undefined || value === undefined) continue;
    if (/;\s*(max-age=(0|-\d+)|expires=[^;]*\b1970\b)/i.test(line)) delete merged[name];
    else merged[name] = value.trim();
  }
  return merged;
}

/** A tool as Holdfast's servers describe it. */
interface Described {
  name: string;
  description?: string;
  input?: { [keyword: string]: Json };
}

function toSchema({ name, description, input }: Described): ToolSchema {
  return {
    type: "function",
    name,
    ...(description !== undefined && { description }),
    parameters: { type: "object", properties: {}, ...input },
  };
}

/** Parses a tool's output. Returns a string unless serializing the parsed value gives exactly the same text. */
export function parseOutput(text: string): Json {
  try {
    const value = JSON.parse(text) as Json;
    return typeof value === "object" && JSON.stringify(value) === text ? value : text;
  } catch {
    return text;
  }
}

/** Returns an id that a header can carry: the given id, or an id derived from it if it has special characters. */
const headerText = (id: string): string => (/^[\w.:-]{1,200}$/.test(id) ? id : derivedId(id));

/** Returns the text of a refusal for a message, shortened. */
export const shownText = (text: string): string => ellipsis(text || "with no text", 2000);

// The allowed fields of `responses_create_params`. Other servers refuse a row with any other field in it.
const createParams = new Set([
  "background",
  "include",
  "input",
  "instructions",
  "max_output_tokens",
  "max_tool_calls",
  "metadata",
  "model",
  "parallel_tool_calls",
  "previous_response_id",
  "prompt",
  "reasoning",
  "service_tier",
  "store",
  "stream",
  "temperature",
  "text",
  "tool_choice",
  "tools",
  "top_logprobs",
  "top_p",
  "truncation",
  "user",
]);

/** Returns a row without the fields of `responses_create_params` that other servers refuse. */
export function rowAsSent({ responses_create_params: given, ...row }: TaskRow): TaskRow {
  const params = Object.entries(Object(given) as TaskRow).filter(([name]) => createParams.has(name));
  return { ...row, responses_create_params: Object.fromEntries(params) };
}

/** Parses a JSON object; returns undefined for any other text. */
export function objectIn(text: string): TaskRow | undefined {
  try {
    // Returns a copy, because parsed JSON may be nested too deeply to be serialized again.
    const value: unknown = copyJson(JSON.parse(text), "the answer");
    return isObject(value) ? (value as TaskRow) : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the failure reason that a server reports in the row; undefined if there was no failure. */
export function failureIn(row: TaskRow): string | undefined {
  const { _ng_failure_class: known, failure_kind: kind, mask_sample: masked, _ng_no_persist: dropped } = row;
  const isFailed = (known ?? null) !== null || (typeof kind === "string" && kind !== "") || masked === true || dropped;
  if (!isFailed) return undefined;
  const names = /^(_ng_failure_|failure_|mask_sample$|_ng_no_persist$)/;
  const reasons = Object.entries(row).filter(([name]) => names.test(name));
  return shownText(reasons.map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(", "));
}

export const isOk = ({ status }: { status: number }): boolean => status >= 200 && status <= 299;
