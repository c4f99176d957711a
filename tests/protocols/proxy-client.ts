// Replicas with a model proxy, and the official clients of the three model APIs on a fetch that calls the app.
import Anthropic from "@anthropic-ai/sdk";
import { createSessions, defineEnvironment, memoryStore, tool, type Model, type Sessions, type Store } from "holdfast";
import OpenAI from "openai";
import { z } from "zod";
import { createBindings, mcpProtocol } from "../../src/protocols/mcp.ts";
import { gymProtocol } from "../../src/protocols/gym.ts";
import { modelProxy, type ModelProxyOptions, type ProxiedModel } from "../../src/protocols/model-proxy.ts";
import { restProtocol } from "../../src/protocols/rest.ts";
import { aggregate } from "../../src/rollout/metrics.ts";
import type { App } from "../../src/server/app.ts";
import { appOf } from "../server/serving.ts";
import { tokensOf } from "./gym-client.ts";
import { fetchOf, origin } from "./mcp-client.ts";

export const counter = defineEnvironment({
  name: "counter",
  state: z.object({ count: z.number().default(0) }),
  task: z.object({ goal: z.number() }),
  seed: () => ({ count: 0 }),
  tools: {
    add: tool({
      description: "Add to the counter.",
      input: z.object({ by: z.number().int() }),
      run: ({ state }, { by }) => ({ count: (state.count += by) }),
    }),
  },
  verify: ({ state, task }) => Number(state.count === task.goal),
});

export interface ProxyReplica {
  sessions: Sessions<typeof counter>;
  app: App;
  fetch: typeof fetch;
  store: Store;
  /** Opens a seeded session, and returns its token. */
  seeded(): Promise<{ session: string; token: string }>;
}

type Given = Partial<ProxiedModel> & { model: Model; store?: Store; pace?: ModelProxyOptions["pace"] };

export function proxyReplica({ store = memoryStore(), pace, ...proxied }: Given): ProxyReplica {
  const sessions = createSessions({ environment: counter, store, keepEnded: true });
  const tokens = tokensOf();
  const bindings = createBindings("counter", tokens, { hasModel: true });
  const protocols = [
    modelProxy({ sessions, bindings, modelFor: () => proxied, ...(pace && { pace }) }),
    mcpProtocol({ sessions, bindings, version: "1.2.3" }),
    gymProtocol({ sessions, tokens, bindings, aggregate }),
    restProtocol({ sessions, bindings }),
  ];
  const mounts = ["", "/counter"].map((prefix) => ({ prefix, protocols }));
  const app = appOf([], { mounts, store });
  return {
    sessions,
    app,
    store,
    fetch: fetchOf(app),
    async seeded() {
      const { session } = await sessions.open({ task: { goal: 5 } });
      const { headers } = bindings.address(session);
      return { session, token: headers["X-NeMo-Gym-Session-Token"] as string };
    },
  };
}

interface ClientOptions {
  maxRetries?: number;
}

export const openai = ({ fetch }: ProxyReplica, token: string, { maxRetries = 0 }: ClientOptions = {}): OpenAI =>
  new OpenAI({ apiKey: "none", baseURL: `${origin}/counter/m/${token}/v1`, fetch, maxRetries });

/** The key is the token. */
export const anthropic = ({ fetch }: ProxyReplica, token: string, { maxRetries = 0 }: ClientOptions = {}): Anthropic =>
  new Anthropic({ apiKey: token, baseURL: origin, fetch, maxRetries });

/** Posts a body as it is. */
export function post(
  { fetch }: ProxyReplica,
  path: string,
  body: unknown,
  headers: { [name: string]: string } = {},
): Promise<Response> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return fetch(`${origin}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: text,
  });
}
