// A gym protocol client without a port, with its tokens and environments.
import { setTimeout as sleep } from "node:timers/promises";
import { defineEnvironment, tool, type Sessions } from "holdfast";
import { z } from "zod";
import type { AnyEnvironment } from "../../src/core/environment.ts";
import type { DecoratingProtocol, Reply, Request, Tokens } from "../../src/core/protocol.ts";
import { gymProtocol } from "../../src/protocols/gym.ts";
import { aggregate } from "../../src/rollout/metrics.ts";
import { createTokens } from "../../src/server/tokens.ts";

export const gymCounter = defineEnvironment({
  name: "gym-counter",
  state: z.object({ count: z.number().int().default(0) }),
  task: z.object({ initial_count: z.number().int(), expected_count: z.number().int().optional() }),
  seed: ({ task }) => ({ count: task.initial_count }),
  // Most tests are not about models that cheat or clients that lost their session; gym-cheats.test.ts is.
  unseeded: "defaults",
  reseed: "replace",
  tools: {
    increment_counter: tool({
      description: "Add to the counter.",
      input: z.object({ count: z.number().int() }),
      run: ({ state }, { count }) => {
        state.count += count;
        return { success: true };
      },
    }),
    increment_slowly: tool({
      description: "Add one, with an await between reading and writing.",
      run: async ({ state }) => {
        const before = state.count;
        await sleep(1);
        state.count = before + 1;
      },
    }),
    get_counter_value: tool({ description: "Read the counter.", run: ({ state }) => ({ count: state.count }) }),
    say: tool({ description: "Say something.", run: ({ state }) => `it is "${state.count}"` }),
    crash: tool({
      description: "Change the state, then fail.",
      run: ({ state }) => {
        state.count = -1;
        throw new Error("boom");
      },
    }),
    picky: tool({
      description: "Has a validator that throws.",
      input: z.object({ x: z.number() }).refine(() => {
        throw new Error("the validator broke");
      }),
      run: () => null,
    }),
  },
  verify: ({ state, task, response }) => ({
    reward: Number(state.count === task.expected_count),
    count: state.count,
    answered: response !== undefined,
  }),
});

export const tokensOf = (key = "a key for tests"): Tokens => createTokens([key]);

export function gymOf<E extends AnyEnvironment>(sessions: Sessions<E>, tokens = tokensOf()): DecoratingProtocol {
  return gymProtocol({ sessions, tokens, aggregate });
}

export interface Wanted {
  method?: string;
  path: string;
  body?: unknown;
  headers?: { [name: string]: string | undefined };
  signal?: AbortSignal;
}

export function requestOf({ method = "POST", path, body, headers = {}, signal }: Wanted): Request {
  const query = new URLSearchParams();
  return { method, path, query, headers, body, signal: signal ?? new AbortController().signal };
}

/** A received reply. */
export interface Arrived {
  status: number;
  headers: { [name: string]: string };
  // eslint-disable-next-line typescript/no-explicit-any -- tests inspect any shape
  json: any;
  text: string | undefined;
  request: Request;
  reply: Reply;
}

function arrivedOf(request: Request, reply: Reply): Arrived {
  const { status, headers = {}, body, text } = reply;
  const written = headers["content-type"] === "application/json" ? text : JSON.stringify(body);
  const json: unknown = written === undefined ? undefined : JSON.parse(written);
  return { status, headers, json, text, request, reply };
}

/** Behaves like NeMo Gym's client: keeps only the cookies of the last reply. */
export class StrictClient {
  protocol: DecoratingProtocol;
  cookie: string | undefined;

  constructor(protocol: DecoratingProtocol, cookie?: string) {
    this.protocol = protocol;
    this.cookie = cookie;
  }

  async send(wanted: Wanted): Promise<Arrived> {
    const headers = { ...(this.cookie !== undefined && { cookie: this.cookie }), ...wanted.headers };
    const request = requestOf({ ...wanted, headers });
    const handled = await this.protocol.handle(request);
    const reply = handled ?? this.protocol.decorate(request, { status: 404, body: { error: { code: "not_found" } } });
    this.cookie = reply.headers?.["set-cookie"]?.split(";")[0];
    return arrivedOf(request, reply);
  }

  post(path: string, body?: unknown, headers?: Wanted["headers"]): Promise<Arrived> {
    return this.send({ path, body, ...(headers && { headers }) });
  }

  get(path: string): Promise<Arrived> {
    return this.send({ method: "GET", path });
  }

  /** Sends a request whose reply is lost: the client sees nothing of it. */
  async lose(path: string, body?: unknown): Promise<Arrived> {
    const before = this.cookie;
    const arrived = await this.post(path, body);
    this.cookie = before;
    arrived.request.gone?.();
    return arrived;
  }
}

/** The number of sessions that have not ended. */
export async function countOpen(sessions: Pick<Sessions, "list">): Promise<number> {
  let count = 0;
  for await (const { ended } of sessions.list()) if (!ended) count++;
  return count;
}
