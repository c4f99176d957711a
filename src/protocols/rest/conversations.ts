// An agent's REST API: its own routes, its description, and runs, streamed on request.
import { run, type RunOptions } from "../../agent/run.ts";
import { ownTools, toolsetTools } from "../../agent/list-tools.ts";
import type { Agent } from "../../core/agent.ts";
import { HoldfastError, isHoldfastError } from "../../core/errors.ts";
import type { Item, ToolSchema } from "../../core/model.ts";
import type { Protocol, Reply } from "../../core/protocol.ts";
import type { Conversations } from "../../core/sessions.ts";
import { sentEvent, streamReply, wantsStream } from "../http/events-reply.ts";
import { createRouter, ok } from "../http/route.ts";
import type { ListedTool } from "./openapi.ts";
import { conversationRoutes } from "./routes.ts";
import { help, opened, sharedHandlers } from "./shared.ts";

type Running = AsyncGenerator<{ type: string }, { session: string; invocation: string; outcome: string }, undefined>;

export type RunAgent = (options: RunOptions) => Running;

export function conversationRouter(
  sessions: Conversations,
  agent: Agent,
  runAgent: RunAgent = (options) => run(agent, options),
): Protocol["handle"] {
  const about = { name: agent.name, description: agent.description };
  const described = { ...about, routes: conversationRoutes, schemas: {}, examples: {} };
  return createRouter(
    conversationRoutes,
    {
      ...sharedHandlers(sessions, () => ({ ...described, tools: ownTools(agent).map(listedTool) })),
      agent: async ({ request: { signal } }) =>
        ok({
          ...about,
          model: agent.kind === "model" ? agent.model.name : null,
          tools: [...ownTools(agent), ...(await toolsetTools(agent, signal))].map(listedTool),
          agents: agent.agents.map(({ name }) => name),
        }),
      openSession: async ({ body }) => opened(await sessions.open(body)),
      runAgent: async ({ id, body, request }) => {
        const { signal } = request;
        const stream = wantsStream(request);
        const { state_delta: stateDelta, call } = body;
        const message = body.message as string | Item[] | undefined;
        const asked = { sessions, session: id, message, stateDelta, call, signal, stream };
        // Refused immediately while a different run holds the session. A failed run is a normal reply that contains the
        // reason.
        const running = runAgent({ ...asked, busy: "refuse", throwOnFailure: false });
        return stream ? streamed(running, signal) : whole(running);
      },
      forkSession: async ({ id, body }) => opened(await sessions.fork(id, body)),
      rewindSession: async ({ id, body: { version, invocation } }) =>
        ok(await sessions.rewind(id, version ?? { before: invocation as string })),
    },
    help,
  );
}

const listedTool = ({ name, description = "", parameters }: ToolSchema): ListedTool => ({
  name,
  description,
  input: parameters,
});

async function whole(running: Running): Promise<Reply> {
  const events: unknown[] = [];
  for (;;) {
    const { done, value } = await running.next();
    if (done) return ok({ ...value, events });
    events.push(value);
  }
}

/**
 * Streams a run. A refusal before the first event fails the request; later failures are sent as an event in the stream.
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
      yield sentEvent(
        "error",
        known ?? new HoldfastError("internal", "internal server error; the server's log has the cause"),
      );
      if (!known) throw thrown;
    } finally {
      // If the reader disconnects, the run ends.
      await running.return(undefined as never);
    }
  }
  return streamReply(told());
}
