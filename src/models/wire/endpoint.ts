// Where a model's requests go and what they carry: base URL, key and headers, from options or the environment.
import { HoldfastError } from "../../core/errors.ts";
import type { ModelRequest } from "../../core/model.ts";
import { isTimeout, timeoutRange } from "../../core/timeout.ts";

export interface EndpointOptions {
  /** The model's name, as its server knows it. */
  model: string;
  /** Where the API is served: a proxy, vLLM, Ollama, LM Studio. Default: the environment's, or the API's own. */
  baseUrl?: string;
  /** Sent to `baseUrl`, whichever it is. Default: the environment's. A server of one's own may need none: "". */
  apiKey?: string;
  /** Sent with every request. */
  headers?: Record<string, string>;
  /** How often a request is sent at most, if it fails by no fault of its own. Default 4. */
  attempts?: number;
  /** Milliseconds until the whole answer of an attempt must be there. Default 600,000. */
  timeout?: number;
  /** Settings of every request, such as `{ temperature: 0 }`. A request's own come before them. */
  request?: Partial<ModelRequest>;
}

/** What tells the endpoints of the APIs apart. */
export interface EndpointDefaults {
  publicUrl: string;
  urlVariable: string;
  keyVariable: string;
  /** The rest of the URL. */
  path(base: string): string;
  keyHeader(key: string): Record<string, string>;
  headers?: Record<string, string>;
}

export interface Endpoint {
  url: string;
  /** The URL for messages: without its query, which may hold a key. */
  shown: string;
  headers: Record<string, string>;
  /** Whether it is the API's own, and not a server that speaks it more or less. */
  isPublic: boolean;
  /** What to do if the key is refused. */
  keyAdvice: string;
  attempts: number;
  timeout: number;
  /** Takes keys out of a text. */
  hide(text: string): string;
}

const mostAttempts = 20;

export function endpointOf(defaults: EndpointDefaults, options: EndpointOptions): Endpoint {
  const { publicUrl, urlVariable, keyVariable } = defaults;
  const { model, apiKey, headers = {}, attempts = 4, timeout = 600_000 } = options;
  if (typeof model !== "string" || model === "") refuse("`model` must be the name of a model");
  if (!Number.isInteger(attempts) || attempts < 1 || attempts > mostAttempts) {
    refuse(`\`attempts\` must be a whole number from 1 to ${mostAttempts}`);
  }
  if (!isTimeout(timeout)) refuse(`\`timeout\` must be ${timeoutRange}`);

  const base = baseOf(
    options.baseUrl ?? (process.env[urlVariable] || publicUrl),
    options.baseUrl === undefined ? urlVariable : "`baseUrl`",
  );
  const isPublic = base.host === new URL(publicUrl).host;
  // Keys are pasted, and read from files: with a line end.
  const key = (apiKey ?? process.env[keyVariable] ?? "").trim();
  const given = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const auth = key === "" ? {} : defaults.keyHeader(key);
  const isAuthorized = key !== "" || Object.keys(given).some((name) => secretName.test(name));
  if (isPublic && !isAuthorized) refuse(`there is no key for ${base.origin}: set ${keyVariable}, or give \`apiKey\``);
  const sent = { "content-type": "application/json", "user-agent": "holdfast", ...defaults.headers, ...auth, ...given };
  checkHeaders(sent, apiKey === undefined ? keyVariable : "`apiKey`", auth);

  const folder = base.pathname.replace(/\/+$/, "");
  base.pathname = folder + defaults.path(folder);
  return {
    url: base.href,
    shown: base.origin + base.pathname,
    headers: sent,
    isPublic,
    keyAdvice: key === "" ? `set ${keyVariable}, or give \`apiKey\`` : `check ${apiKey ? "`apiKey`" : keyVariable}`,
    attempts,
    timeout,
    hide: hider([key, ...secretsIn(given), ...base.searchParams.values()]),
  };
}

function refuse(message: string): never {
  throw new HoldfastError("invalid_option", message);
}

function baseOf(text: string, name: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) return refuse(`${name} must be a URL such as http://127.0.0.1:8000/v1`);
  // The client would not send it, and it would stand in messages.
  if (url.username !== "" || url.password !== "") return refuse(`${name} must hold no password; give \`headers\``);
  return url;
}

// The client's own message for it would come with the first request, and say nothing of where the value is from.
function checkHeaders(headers: Record<string, unknown>, keySource: string, auth: Record<string, string>): void {
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value === "string" && /^[\t\x20-\x7e\x80-\xff]*$/.test(value)) continue;
    const source = name in auth ? `the key in ${keySource}` : `\`headers\`: "${name}"`;
    refuse(`${source} has characters that a header cannot carry`);
  }
}

const secretName = /auth|key|token|secret|cookie|password/i;

function secretsIn(headers: Record<string, string>): string[] {
  const values = Object.entries(headers).flatMap(([name, value]) => (secretName.test(name) ? [value] : []));
  // "Bearer KEY": a server may repeat the key alone.
  return values.flatMap((value) => [value, value.replace(/^\S+\s+/, "")]);
}

function hider(secrets: string[]): (text: string) => string {
  const spellings = secrets.flatMap((secret) => [
    secret,
    encodeURIComponent(secret),
    JSON.stringify(secret).slice(1, -1),
  ]);
  // A word of a few letters is no secret, and would be cut out of every sentence.
  const hidden = [...new Set(spellings)].filter(({ length }) => length >= 6).sort((a, b) => b.length - a.length);
  return (text) => hidden.reduce((rest, secret) => rest.replaceAll(secret, "[hidden]"), text);
}
