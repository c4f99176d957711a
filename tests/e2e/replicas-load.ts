// Clients of several replicas that count up sessions, drop answers on purpose, retry elsewhere, and keep a ledger.
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";

interface Answer {
  status: number;
  retryAfter: string | undefined;
  body: { ok?: boolean; version?: number; repeated?: boolean; error?: { code: string; message: string } };
  ms: number;
}

interface Entry {
  session: string;
  /** The version of its answer; undefined until it was answered. */
  version: number | undefined;
}

export interface LoadOptions {
  replicas: { url: string }[];
  sessions: string[];
  clients: number;
  /** The number of calls before it ends; by default it continues until stopped. */
  calls?: number;
  /** The client drops the answer to every n-th call. */
  cutEvery?: number;
  /** How long a call may be retried, in milliseconds. */
  retryFor?: number;
}

export interface Load {
  /** The calls, by call id. */
  ledger: Map<string, Entry>;
  /** Counts of each kind of trouble: an error code, "cut" by us, "lost" with the server. */
  troubles: Map<string, number>;
  /** The longest duration of a request in milliseconds, by status. */
  longest: Map<number, number>;
  answered(): number;
  /** Stops new calls. Resolves when all started calls were answered. */
  stop(): Promise<void>;
  done: Promise<void>;
}

/** Codes after which the same call id must be sent again, because the outcome is nothing or unknown. */
const passing = new Set([
  "store_busy",
  "store_failed",
  "store_full",
  "too_busy",
  "server_stopping",
  "engine_stopped",
  "store_closed",
]);

export function startLoad(options: LoadOptions): Load {
  const { replicas, sessions, clients, calls = Infinity, cutEvery = Infinity, retryFor = 60_000 } = options;
  const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
  const load = Math.random().toString(36).slice(2, 8);
  const ledger: Load["ledger"] = new Map();
  const troubles: Load["troubles"] = new Map();
  const longest: Load["longest"] = new Map();
  let next = 0;
  let stopped = false;
  let answered = 0;
  const note = (trouble: string): void => void troubles.set(trouble, (troubles.get(trouble) ?? 0) + 1);
  const pick = (): { url: string } => replicas[Math.floor(Math.random() * replicas.length)]!;

  async function increment(number: number): Promise<void> {
    const session = sessions[number % sessions.length]!;
    const call = `${load}-${number}`;
    const body = JSON.stringify({ tool: "increment_counter", input: { count: 1 }, call });
    ledger.set(call, { session, version: undefined });
    const deadline = Date.now() + retryFor;
    let cutting = number % cutEvery === cutEvery - 1;
    let last: { url: string } | undefined;
    for (;;) {
      let replica = pick();
      while (replica === last && replicas.length > 1) replica = pick();
      last = replica;
      const cut = cutting ? (Math.floor(number / cutEvery) % 2 === 0 ? "sent" : "first byte") : undefined;
      cutting = false;
      const answer = await post(agent, `${replica.url}/v1/sessions/${session}/call`, body, cut);
      if (typeof answer === "string") note(answer);
      else {
        longest.set(answer.status, Math.max(longest.get(answer.status) ?? 0, answer.ms));
        if (answer.status === 200) {
          expect(answer.body).toMatchObject({ ok: true });
          ledger.set(call, { session, version: answer.body.version });
          answered++;
          return;
        }
        const code = answer.body.error?.code ?? "";
        note(code);
        if (!passing.has(code)) throw new Error(`${answer.status}: ${JSON.stringify(answer.body)}`);
        if (answer.status === 503) expect(answer.retryAfter).toBe("1");
      }
      if (Date.now() > deadline) throw new Error(`${call} was not answered: ${JSON.stringify(answer)}`);
      if (answer !== "cut") await sleep(20 + Math.random() * 80);
    }
  }

  const goesOn = (): boolean => !stopped && next < calls;

  async function client(): Promise<void> {
    while (goesOn()) await increment(next++);
  }

  const done = Promise.all(Array.from({ length: clients }, client)).then(
    () => agent.destroy(),
    (thrown: unknown) => {
      stopped = true;
      throw thrown;
    },
  );
  done.catch(() => undefined);
  return {
    ledger,
    troubles,
    longest,
    answered: () => answered,
    stop() {
      stopped = true;
      return done;
    },
    done,
  };
}

/** Sends one request. "cut": we left, after sending it or at the first byte of its answer. "lost": the server left. */
export function post(
  agent: Agent | undefined,
  url: string,
  body: string,
  cut?: "sent" | "first byte",
): Promise<Answer | "cut" | "lost"> {
  const began = performance.now();
  return new Promise((resolve) => {
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const sent = request(url, { method: "POST", headers, ...(agent && { agent }) }, (response) => {
      if (cut !== undefined) {
        sent.destroy();
        return resolve("cut");
      }
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => (text += String(chunk)));
      response.on("error", () => resolve("lost"));
      response.on("end", () => {
        const { statusCode: status = 0, headers } = response;
        if (!response.complete) return resolve("lost");
        const ms = performance.now() - began;
        resolve({ status, retryAfter: headers["retry-after"], body: JSON.parse(text) as Answer["body"], ms });
      });
    });
    sent.on("error", () => resolve(cut === "sent" ? "cut" : "lost"));
    sent.end(body, () => {
      // At any point of the call, from before it was read to after it was committed.
      if (cut === "sent") setTimeout(() => sent.destroy(), Math.random() * 20);
    });
  });
}

/** Opens sessions at 0, through all replicas. */
export async function openSessions(replicas: { url: string }[], count: number): Promise<string[]> {
  const sessions: string[] = [];
  for (let from = 0; from < count; from += 50) {
    const page = Array.from({ length: Math.min(50, count - from) }, async (_, at) => {
      const { url } = replicas[at % replicas.length]!;
      const response = await fetch(`${url}/v1/sessions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: '{"task":{"initial_count":0}}',
      });
      expect(response.status).toBe(201);
      return ((await response.json()) as { session: string }).session;
    });
    sessions.push(...(await Promise.all(page)));
  }
  return sessions;
}

interface LogEvent {
  type: string;
  version: number;
  call?: string;
}

async function get<T>(url: string): Promise<T> {
  const response = await fetch(url);
  expect(response.status).toBe(200);
  return (await response.json()) as T;
}

async function eventsOf(url: string, session: string): Promise<LogEvent[]> {
  const events: LogEvent[] = [];
  for (let after = 0; ;) {
    const path = `${url}/v1/sessions/${session}/events?after=${after}&limit=1000`;
    const page = await get<{ events: LogEvent[] }>(path);
    events.push(...page.events);
    if (page.events.length === 0) return events;
    after = page.events.at(-1)!.version;
  }
}

/**
 * Compares logs and states with ledgers. An answered call is there once, at its version.
 * An unanswered call is there at most once, and nothing else is there.
 */
export async function expectExact(replicas: { url: string }[], sessions: string[], ...loads: Load[]): Promise<number> {
  const called = new Map(loads.flatMap(({ ledger }) => [...ledger]));
  let applied = 0;
  for (let from = 0; from < sessions.length; from += 20) {
    const page = sessions.slice(from, from + 20).map(async (session, at) => {
      // Not always the replica that wrote it.
      const { url } = replicas[at % replicas.length]!;
      const calls = (await eventsOf(url, session)).filter(({ type }) => type === "tool.called");
      const { state } = await get<{ state: { count: number } }>(`${url}/v1/sessions/${session}/state`);
      expect(state.count).toBe(calls.length);
      expect(new Set(calls.map(({ call }) => call)).size).toBe(calls.length);
      const versions = new Map(calls.map(({ call, version }) => [call, version]));
      for (const [call, entry] of called) {
        if (entry.session !== session || entry.version === undefined) continue;
        if (versions.get(call) !== entry.version) {
          throw new Error(`${call} was answered as ${entry.version}, and is ${versions.get(call)} in the log`);
        }
      }
      for (const call of versions.keys()) expect(called.get(call ?? "")?.session).toBe(session);
      applied += calls.length;
    });
    await Promise.all(page);
  }
  return applied;
}
