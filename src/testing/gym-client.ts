// createGymClient(): a client of the gym protocol that keeps cookies and records its requests as curl commands.
import type { Json } from "../core/json.ts";

export interface GymReply {
  status: number;
  body: Json;
  /** True if the reply set a cookie. */
  cookie: boolean;
}

export interface GymClient {
  post(path: string, body: Json, headers?: { [name: string]: string }): Promise<GymReply>;
}

export interface GymClientOptions {
  url: string;
  /** Name of its cookie jar in the commands. */
  name: string;
  /** Receives one command per request. */
  commands: string[];
  /** "replace" keeps only the cookies of the last reply, as agents of the protocol do. Default "merge". */
  cookies?: "merge" | "replace";
}

export function createGymClient({ url, name, commands, cookies = "merge" }: GymClientOptions): GymClient {
  let jar = new Map<string, string>();

  return {
    async post(path, body, headers = {}) {
      const text = JSON.stringify(body);
      const sent = { "content-type": "application/json", ...headers };
      const flags = Object.entries(sent).map(([header, value]) => `-H ${quoted(`${header}: ${value}`)}`);
      commands.push(
        `curl -s -b ${name}.jar -c ${name}.jar ${flags.join(" ")} ${quoted(url + path)} -d ${quoted(text)}`,
      );
      const cookie = [...jar].map(([key, value]) => `${key}=${value}`).join("; ");
      const response = await fetch(url + path, {
        method: "POST",
        headers: { ...sent, ...(cookie && { cookie }) },
        body: text,
        redirect: "manual",
        signal: AbortSignal.timeout(60_000),
      });
      const set = response.headers.getSetCookie().map((line) => /^([^=;]*)=([^;]*)/.exec(line));
      const fresh = new Map(set.map((match) => [match?.[1] ?? "", match?.[2] ?? ""]));
      jar = cookies === "replace" ? fresh : new Map([...jar, ...fresh]);
      return { status: response.status, body: parsed(await response.text()), cookie: fresh.size > 0 };
    },
  };
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    // A tool may answer with any text.
    return text;
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
