// Sends requests to the server that served the page, with the token if the user entered one.
import { createClient, type Client } from "../../../src/client/client.ts";
import { readLines } from "../../../src/client/lines.ts";
import type { Agent } from "../../../src/core/agent.ts";
import type { NumberedEvent } from "../../../src/core/event.ts";
import type { TaskRow } from "../../../src/core/rollout.ts";
import type { About, RowSummary } from "../../../src/rollout/collection-view.ts";
import { SourceError, type Source } from "./source.ts";

/** Kept for the life of the tab and for this server only. */
const tokenKey = "holdfast token";

let wantToken: ((wrong: boolean) => Promise<string>) | undefined;
let asked: Promise<string> | undefined;

/** Sets the function that asks the user for the server's token. */
export function onTokenWanted(ask: (wrong: boolean) => Promise<string>): void {
  wantToken = ask;
}

/** The server's base path. The page is one folder below it: "/view/" belongs to "/v1". */
const base = new URL("..", document.baseURI).pathname.replace(/\/$/, "");

/** Sends a request such as request("/counter/v1/sessions"). Asks the user for the token if the server requires one. */
export const request = (path: string, init: RequestInit = {}): Promise<Response> => send(base + path, init);

/** Returns the client for an agent at a path, such as "/concierge". */
export const agentAt = (at: string): Client<Agent> =>
  createClient<Agent>(location.origin + base + at, { fetch: send, retryFor: 0 });

async function send(url: string, init: RequestInit): Promise<Response> {
  for (;;) {
    const token = sessionStorage.getItem(tokenKey);
    const headers = new Headers(init.headers);
    if (token !== null) headers.set("authorization", `Bearer ${token}`);
    const response = await fetch(url, { ...init, headers }).catch((thrown: unknown) => {
      if (init.signal?.aborted) throw thrown;
      throw new SourceError(0, "unreachable", "the server does not answer; check that it is running");
    });
    if (response.status !== 401 || !wantToken) return response;
    // Another request may have stored a newer token in the meantime.
    if (asked === undefined && sessionStorage.getItem(tokenKey) !== token) continue;
    asked ??= wantToken(token !== null).finally(() => (asked = undefined));
    sessionStorage.setItem(tokenKey, await asked);
  }
}

/** Requests JSON. Throws a SourceError with the server's message. */
export async function ask<T>(path: string, init: RequestInit & { json?: unknown } = {}): Promise<T> {
  const { json, ...rest } = init;
  const body =
    json === undefined ? {} : { body: JSON.stringify(json), headers: { "content-type": "application/json" } };
  const response = await request(path, { ...rest, ...body });
  if (response.ok) return (await response.json()) as T;
  throw await refusal(response);
}

export const post = <T>(path: string, json: unknown = {}, signal?: AbortSignal): Promise<T> =>
  ask<T>(path, { method: "POST", json, ...(signal && { signal }) });

export async function refusal(response: Response): Promise<SourceError> {
  const { error } = (await response.json().catch(() => ({}))) as { error?: { code?: string; message?: string } };
  return new SourceError(
    response.status,
    error?.code ?? "",
    error?.message ?? `the server answered ${response.status}`,
  );
}

/** Loads all events of a log, page by page. */
export async function allEvents(at: string, session: string, signal?: AbortSignal): Promise<NumberedEvent[]> {
  const events: NumberedEvent[] = [];
  for (let after: number | null = 0; after !== null;) {
    const path = `${at}/v1/sessions/${encodeURIComponent(session)}/events?limit=1000&after=${after}`;
    const page: { events: NumberedEvent[]; next: number | null } = await ask(path, signal ? { signal } : {});
    events.push(...page.events);
    after = page.next;
  }
  return events;
}

/** Passes each line of a response to `take`. Every line is a JSON list. */
async function lists<T>(path: string, take: (list: T[]) => void, signal: AbortSignal): Promise<void> {
  const response = await request(path, { signal });
  if (!response.ok || !response.body) throw await refusal(response);
  try {
    for await (const line of readLines(response.body)) {
      if (line !== "" && !line.startsWith(":")) take(JSON.parse(line) as T[]);
    }
  } catch (thrown) {
    // The browser's own message is only "network error" or "terminated".
    if (signal.aborted || !(thrown instanceof TypeError)) throw thrown;
    throw new SourceError(0, "unreachable", "the server closed the connection; its output may say why");
  }
}

export function serverSource(): Source {
  let about: Promise<About> | undefined;
  const source: Source = {
    isLive: true,
    about() {
      // A failure is not cached.
      about ??= ask<About>("/v1/about").catch((thrown: unknown) => {
        about = undefined;
        throw thrown;
      });
      return about;
    },
    rows: (run, take, signal) => lists<RowSummary>(`/v1/runs/${encodeURIComponent(run)}/rows`, take, signal),
    search: (run, text, take, signal) =>
      lists<number>(`/v1/runs/${encodeURIComponent(run)}/search?text=${encodeURIComponent(text)}`, take, signal),
    details: (run) => ask(`/v1/runs/${encodeURIComponent(run)}`),
    totals: (run) => ask(`/v1/runs/${encodeURIComponent(run)}/totals`),
    async row(run, row) {
      return (await ask<{ row: TaskRow }>(`/v1/runs/${encodeURIComponent(run)}/rows/${row}`)).row;
    },
    async eventsOf(run, { session }) {
      const { runs, environments } = await source.about();
      const name = runs.find((known) => known.run === run)?.environment;
      const environment = environments.find((known) => known.name === name);
      if (!environment || session === null) return undefined;
      try {
        return await allEvents(environment.at, session);
      } catch (thrown) {
        if (thrown instanceof SourceError && thrown.status === 404) return undefined;
        throw thrown;
      }
    },
  };
  return source;
}
