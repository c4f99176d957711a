// agentProtocol(): serves an agent over REST, under /v1: its sessions, their state and events, and runs, optionally
// streamed.
import { agentSchema, type Agent } from "../core/agent.ts";
import type { Conversations } from "../core/sessions.ts";
import type { AgentState } from "../core/shared-state.ts";
import { HoldfastError, isHoldfastError } from "../core/errors.ts";
import { eventsReply, sentEvent, streamReply, wantsStream } from "./http/events-reply.ts";
import type { Item } from "../core/model.ts";
import type { Protocol, Reply } from "../core/protocol.ts";
import { createRouter, takeFirst, ok, type Handlers } from "./http/route.ts";
import { toJsonSchema } from "../core/schema.ts";
import { routes } from "./agents/routes.ts";

/** Options of a run. It is refused at once while another run holds the session. */
export interface RunRequest {
  sessions: Conversations;
  session: string;
  message: string | Item[] | undefined;
  stateDelta: AgentState | undefined;
  /** The id of the turn: a repeat gets its recorded events and outcome. */
  call: string | undefined;
  signal: AbortSignal;
  stream: boolean;
  busy: "refuse";
}

type Running = AsyncGenerator<{ type: string }, { session: string; invocation: string; outcome: string }, undefined>;

export interface AgentProtocolOptions {
  agent: Agent;
  sessions: Conversations;
  /** Runs the agent. Every event is committed before it is yielded, except events of type `partial`. */
  run(options: RunRequest): Running;
}

/**
 * Serves one agent. Errors of `sessions` and `run` are left to the server.
 *
 * @example
 * const protocol = agentProtocol({ agent, sessions, run: (options) => run(agent, options) });
 * await protocol.handle({ method: "POST", path: `/v1/sessions/${id}/run`, query, headers: {}, body: { message: "hello" }, signal });
 */
export function agentProtocol({ agent, sessions, run }: AgentProtocolOptions): Protocol {
  const handlers: Handlers<typeof routes> = {
    agent: () => ok(describeAgent(agent)),
    openSession: async ({ body }) => {
      const info = await sessions.open(body);
      return { status: 201, body: info, about: { session: info.session } };
    },
    listSessions: async ({ query: { after, limit } }) => {
      const { items, more } = await takeFirst(sessions.list(after === undefined ? {} : { after }), limit);
      return ok({ sessions: items, next: (more && items.at(-1)?.session) || null, more });
    },
    getSession: async ({ id }) => ok(await sessions.info(id)),
    closeSession: async ({ id }) => ok({ closed: await sessions.close(id) }),
    getState: async ({ id, query }) => {
      // Read the version first, so that the reply names the version of its state.
      const version = query.version ?? (await sessions.info(id)).version;
      return ok({ session: id, version, state: await sessions.state(id, version) });
    },
    listEvents: (given) => eventsReply(sessions, given),
    runAgent: async ({ id, body, request }) => {
      const { signal } = request;
      const stream = wantsStream(request);
      const { state_delta: stateDelta, message: said } = body;
      const message = said as string | Item[] | undefined;
      const call = body.call ?? request.headers["idempotency-key"];
      const running = run({ sessions, session: id, message, stateDelta, call, signal, stream, busy: "refuse" });
      return stream ? streamed(running, signal) : whole(running);
    },
    rewindSession: async ({ id, body }) => ok(await sessions.rewind(id, { before: body.invocation })),
  };

  return { name: "agents", handle: createRouter(routes, handlers, "there are /v1/agent and /v1/sessions") };
}

/** Builds the reply to `GET /v1/agent`. Tools of toolsets are known only during a run. */
function describeAgent(agent: Agent) {
  const tools = agent.kind === "model" ? [...agent.tools] : [];
  return {
    name: agent.name,
    description: agent.description,
    model: agent.kind === "model" ? agent.model.name : null,
    tools: tools.map(([name, made]) => {
      if (!("run" in made)) {
        const { description, parameters } = agentSchema(name, made);
        return { name, description, input: parameters };
      }
      return { name, description: made.description, input: { type: "object", ...toJsonSchema(made.input) } };
    }),
    agents: agent.agents.map(({ name }) => name),
  };
}

async function whole(running: Running): Promise<Reply> {
  const events: unknown[] = [];
  for (;;) {
    const { done, value } = await running.next();
    if (done) return ok({ ...value, events });
    events.push(value);
  }
}

/**
 * Streams a run. A refusal before the first event fails the request; later failures are sent as an event of the stream.
 */
async function streamed(running: Running, signal: AbortSignal): Promise<Reply> {
  const first = await running.next();
  async function* told(): AsyncGenerator<string, void, undefined> {
    try {
      let next = first;
      for (; !next.done; next = await running.next()) yield sentEvent(next.value.type, next.value);
      yield sentEvent("done", next.value);
    } catch (thrown) {
      if (signal.aborted) return;
      const known = isHoldfastError(thrown) ? thrown : undefined;
      yield sentEvent("error", known ?? new HoldfastError("internal", "the server failed; its log says more"));
      if (!known) throw thrown;
    } finally {
      // A reader that disconnects ends the run.
      await running.return(undefined as never);
    }
  }
  return streamReply(told());
}
