// createGymClient(): a gym protocol client that keeps cookies and records its requests as curl commands.
import http from "node:http";
import https from "node:https";
import { jsonOrText, type Json } from "../../core/json.ts";

export interface GymReply {
  status: number;
  body: Json;
  /** True if the reply set a cookie. */
  cookie: boolean;
  /** True if the server marked its answer as coming from an unseeded session. Only Holdfast's servers do. */
  isNew: boolean;
}

export type GymClient = ReturnType<typeof createGymClient>;

type Headers = { [name: string]: string };

export interface ClientOptions {
  /** "replace" keeps only the last reply's cookies, as the protocol's agents do. Default "merge". */
  cookies?: "merge" | "replace";
  /** "new" opens a connection for each request, so that requests may reach different processes. Default "kept". */
  connections?: "kept" | "new";
  /** The cookies to start with. Default: none. */
  jar?: ReadonlyMap<string, string>;
}

export interface GymClientOptions extends ClientOptions {
  url: string;
  /** The name of the client's cookie jar in the commands. */
  name: string;
  /** The client appends one command per request. */
  commands: string[];
}

const timeout = 60_000;
const [kept, keptSecure] = [new http.Agent({ keepAlive: true }), new https.Agent({ keepAlive: true })];

export function createGymClient(options: GymClientOptions) {
  const { url, name, commands, cookies = "merge", connections = "kept" } = options;
  let jar = new Map(options.jar);
  const isSecure = url.startsWith("https:");
  const agent = connections === "new" ? false : isSecure ? keptSecure : kept;

  async function send(method: string, path: string, text?: string, extra: Headers = {}): Promise<GymReply> {
    const given = { ...(text !== undefined && { "content-type": "application/json" }), ...extra };
    const flags = Object.entries(given).map(([header, value]) => `-H ${quoted(`${header}: ${value}`)}`);
    const data = text === undefined ? [] : ["-d", quoted(text)];
    const cookie = [...jar].map(([key, value]) => `${key}=${value}`).join("; ");
    const sent = options.jar ? quoted(cookie) : `${name}.jar`;
    commands.push(["curl", "-s", "-b", sent, "-c", `${name}.jar`, ...flags, quoted(url + path), ...data].join(" "));
    const length = text === undefined ? {} : { "content-length": String(Buffer.byteLength(text)) };
    const headers = { ...given, ...length, ...(cookie && { cookie }) };
    const answer = await exchanged(url + path, { method, headers, agent, timeout }, text);
    const set = answer.set.map((line) => /^([^=;]*)=([^;]*)/.exec(line));
    const fresh = new Map(set.map((match) => [match?.[1] ?? "", match?.[2] ?? ""]));
    jar = cookies === "replace" ? fresh : new Map([...jar, ...fresh]);
    return { status: answer.status, body: jsonOrText(answer.text), cookie: fresh.size > 0, isNew: answer.isNew };
  }

  return {
    get: (path: string) => send("GET", path),
    post: (path: string, body: Json, headers?: Headers) => send("POST", path, JSON.stringify(body), headers),
    /** Sends a body unchanged. */
    postText: (path: string, text: string) => send("POST", path, text),
    /** A copy of the client's cookies. */
    cookies: () => new Map(jar),
  };
}

interface Exchanged {
  status: number;
  text: string;
  set: string[];
  isNew: boolean;
}

async function exchanged(url: string, options: http.RequestOptions, text: string | undefined): Promise<Exchanged> {
  try {
    return await exchange(url, options, text);
  } catch (thrown) {
    // The server closed an idle connection before it read the request.
    if (!(thrown instanceof StaleConnection)) throw thrown;
    return exchange(url, { ...options, agent: false }, text);
  }
}

class StaleConnection extends Error {}

function exchange(url: string, options: http.RequestOptions, text: string | undefined): Promise<Exchanged> {
  return new Promise((resolve, reject) => {
    const { request } = url.startsWith("https:") ? https : http;
    const sent = request(url, options, (reply) => {
      const parts: Buffer[] = [];
      reply.on("data", (part: Buffer) => parts.push(part));
      reply.on("error", reject);
      reply.on("end", () =>
        resolve({
          status: reply.statusCode ?? 0,
          text: Buffer.concat(parts).toString(),
          set: reply.headers["set-cookie"] ?? [],
          isNew: reply.headers["holdfast-session"] === "new",
        }),
      );
    });
    sent.on("timeout", () => sent.destroy(new Error(`no reply within ${timeout / 1000} s`)));
    sent.on("error", (error: NodeJS.ErrnoException) => {
      reject(error.code === "ECONNRESET" && sent.reusedSocket ? new StaleConnection() : error);
    });
    sent.end(text);
  });
}

const networkErrors: { [code: string]: string } = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "the connection was closed without a reply",
  ENOTFOUND: "the host name is unknown",
  EAI_AGAIN: "the host name cannot be resolved",
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the network cannot be reached",
  ETIMEDOUT: "the connection timed out",
};

/** Describes a network failure; returns undefined for any other error. */
export function networkFailure(thrown: unknown): string | undefined {
  const causes = thrown instanceof AggregateError ? (thrown.errors as unknown[]) : [thrown];
  const codes = causes.map((cause) => (Object(cause) as { code?: unknown }).code);
  const known = codes.find((code) => typeof code === "string" && Object.hasOwn(networkErrors, code));
  return known === undefined ? undefined : networkErrors[known as string];
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
