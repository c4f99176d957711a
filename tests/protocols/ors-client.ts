// A client of the Open Reward Standard, as strict as the ones that trainers import.
import type { Loose } from "./openenv-client.ts";

/** Python's str.lstrip, for JSON: it also removes U+0085, and U+001C to U+001F, for which JSON has escapes. */
const stripStart = (text: string): string => text.replace(/^[\s\u0085]+/, "");

/** Reads server-sent events as ORS's clients do: they strip blanks at the start of every line of data. */
function readEvents(text: string): { event: string; data: string }[] {
  return text.split("\n\n").flatMap((block) => {
    const lines = block.split("\n").filter((line) => line !== "" && !line.startsWith(":"));
    if (lines.length === 0) return [];
    const field = (name: string): string =>
      lines
        .flatMap((line) => (line.startsWith(`${name}:`) ? [stripStart(line.slice(name.length + 1))] : []))
        .join("\n");
    return [{ event: field("event"), data: field("data") }];
  });
}

export interface OrsCall {
  id: string | undefined;
  /** The joined data; undefined if the stream had no end. */
  result: Loose;
  error: string | undefined;
  events: { event: string; data: string }[];
}

export function orsClient(base: string) {
  const ask = async (method: string, path: string, body?: unknown, session?: string) => {
    const headers: { [name: string]: string } = { "content-type": "application/json" };
    if (session !== undefined) headers["x-session-id"] = session;
    const reply = await fetch(`${base}${path}`, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { status: reply.status, type: reply.headers.get("content-type") ?? "", text: await reply.text() };
  };
  const json = async (method: string, path: string, body?: unknown, session?: string): Promise<Loose> => {
    const { status, text } = await ask(method, path, body, session);
    return { status, body: JSON.parse(text) as Loose };
  };
  return {
    ask,
    json,
    /** Returns the id of a session that is not opened yet. */
    async createSession(): Promise<string> {
      const events = readEvents((await ask("POST", "/create_session", {})).text);
      if (events.at(-1)?.event !== "end") throw new Error("create_session has no end");
      return events.find(({ event }) => event === "task_id")!.data;
    },
    async call(session: string, name: string, input: unknown, id?: unknown, path = "/call"): Promise<OrsCall> {
      const body = { name, input, ...(id !== undefined && { task_id: id }) };
      const { status, text } = await ask("POST", path, body, session);
      if (status !== 200) return { id: undefined, result: undefined, error: text, events: [] };
      const events = readEvents(text);
      const longest = Math.max(...text.split("\n").map((line) => line.length));
      if (longest > 60_000) throw new Error(`a line of ${longest} breaks the reader`);
      const joined = events.filter(({ event }) => event === "chunk" || event === "end").map(({ data }) => data);
      const isWhole = events.at(-1)?.event === "end";
      return {
        id: events.find(({ event }) => event === "task_id")?.data,
        result: isWhole ? (JSON.parse(joined.join("")) as Loose) : undefined,
        error: events.find(({ event }) => event === "error")?.data,
        events,
      };
    },
  };
}
