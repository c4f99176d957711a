// Resolves where a model's requests are sent: base URL, key and headers, from options or the environment.
import { invalidOption } from "../../core/errors.ts";
import type { ModelRequest } from "../../core/model.ts";
import { refuseUnknown } from "../../core/suggest.ts";
import { isTimeout, timeoutRange } from "../../core/timeout.ts";

export interface EndpointOptions {
  /** The model's name on its server. */
  model: string;
  /** The API's URL, for example of vLLM, Ollama or a proxy. Default: the environment variable, or the API's own URL. */
  baseUrl?: string;
  /** The API key. Default: the environment variable. Use "" for a self-hosted server without a key. */
  apiKey?: string;
  /** Headers for every request. */
  headers?: Record<string, string>;
  /** Maximum number of attempts for a request, if a retry may succeed. Default 4. */
  attempts?: number;
  /** Maximum milliseconds for the complete answer of one attempt. Default 600,000. */
  timeout?: number;
  /** Settings for every request, such as `{ temperature: 0 }`. A request's own settings take precedence. */
  request?: Partial<ModelRequest>;
}

/** The differences between the APIs' endpoints. */
export interface EndpointDefaults {
  /** The API's name, for example "chat". */
  name: string;
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
  /** Whether this is the API's own server rather than another server with a similar API. */
  isPublic: boolean;
  /** Advice for a refused key. */
  keyAdvice: string;
  attempts: number;
  timeout: number;
  /** Removes API keys and other secrets from a string. */
  hide(text: string): string;
}

const mostAttempts = 20;
const known: Record<keyof EndpointOptions, true> = {
  model: true,
  baseUrl: true,
  apiKey: true,
  headers: true,
  attempts: true,
  timeout: true,
  request: true,
};

export function resolveEndpoint(defaults: EndpointDefaults, options: EndpointOptions): Endpoint {
  const { name, publicUrl, urlVariable, keyVariable } = defaults;
  const { model, apiKey, headers = {}, attempts = 4, timeout = 600_000 } = options;
  const hasModel = typeof model === "string" && model !== "";
  refuseUnknown(hasModel ? `the model ${model}` : `${name}Model`, options, known, invalidOption);
  if (!hasModel) refuse(`${name}Model needs \`model\`, the model's name on its server`);
  if (!Number.isInteger(attempts) || attempts < 1 || attempts > mostAttempts) {
    refuse(`\`attempts\` must be a whole number from 1 to ${mostAttempts}`);
  }
  if (!isTimeout(timeout)) refuse(`\`timeout\` must be ${timeoutRange}`);

  const base = parseBase(
    options.baseUrl ?? (process.env[urlVariable] || publicUrl),
    options.baseUrl === undefined ? urlVariable : "`baseUrl`",
  );
  const isPublic = base.host === new URL(publicUrl).host;
  // Keys from files or the clipboard often end with a line break.
  const key = (apiKey ?? process.env[keyVariable] ?? "").trim();
  const given = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const auth = key === "" ? {} : defaults.keyHeader(key);
  const isAuthorized = key !== "" || Object.keys(given).some((name) => secretName.test(name));
  if (isPublic && !isAuthorized)
    refuse(`there is no API key for ${base.origin}: set ${keyVariable}, or in code pass \`apiKey\``);
  const sent = { "content-type": "application/json", "user-agent": "holdfast", ...defaults.headers, ...auth, ...given };
  checkHeaders(sent, apiKey === undefined ? keyVariable : "`apiKey`", auth);

  const folder = base.pathname.replace(/\/+$/, "");
  base.pathname = folder + defaults.path(folder);
  return {
    url: base.href,
    shown: base.origin + base.pathname,
    headers: sent,
    isPublic,
    keyAdvice: key === "" ? `set ${keyVariable}, or pass \`apiKey\`` : `check ${apiKey ? "`apiKey`" : keyVariable}`,
    attempts,
    timeout,
    hide: hider([key, ...secretsIn(given), ...base.searchParams.values()]),
  };
}

function refuse(message: string): never {
  throw invalidOption(message);
}

function parseBase(text: string, name: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) return refuse(`${name} must be a URL such as http://127.0.0.1:8000/v1`);
  // Refuses a password in a URL, because the client would not send it, and messages would show it.
  if (url.username !== "" || url.password !== "") return refuse(`${name} must not contain a password; use \`headers\``);
  return url;
}

// Checks headers early. The HTTP client would report an invalid value only at the first request, without its source.
function checkHeaders(headers: Record<string, unknown>, keySource: string, auth: Record<string, string>): void {
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value === "string" && /^[\t\x20-\x7e\x80-\xff]*$/.test(value)) continue;
    const source = name in auth ? `the key in ${keySource}` : `\`headers\`: "${name}"`;
    refuse(`${source} contains characters that are not allowed in an HTTP header`);
  }
}

const secretName = /auth|key|token|secret|cookie|password/i;

function secretsIn(headers: Record<string, string>): string[] {
  const values = Object.entries(headers).flatMap(([name, value]) => (secretName.test(name) ? [value] : []));
  // Adds the value without "Bearer", because a server may repeat the key alone.
  return values.flatMap((value) => [value, value.replace(/^\S+\s+/, "")]);
}

function hider(secrets: string[]): (text: string) => string {
  const spellings = secrets.flatMap((secret) => [
    secret,
    encodeURIComponent(secret),
    JSON.stringify(secret).slice(1, -1),
  ]);
  // A very short value is not a secret, and removing it would make messages unreadable.
  const hidden = [...new Set(spellings)].filter(({ length }) => length >= 6).sort((a, b) => b.length - a.length);
  return (text) => hidden.reduce((rest, secret) => rest.replaceAll(secret, "[hidden]"), text);
}
