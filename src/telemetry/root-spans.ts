// Root spans: request, rollout, agent run.
import type { Attributes } from "@opentelemetry/api";
import type { Reply, Request } from "../core/protocol.ts";
import type { Play, Played, Rollout } from "../core/rollout.ts";
import { shortDigest, type Spans } from "./spans.ts";

/** Paths polled by machines; not traced. */
const untracedPaths = new Set(["/healthz", "/readyz", "/metrics"]);

/** Traces requests. A request that names the client's trace becomes part of it. */
export function tracedRequests<App extends { handle(request: Request): Promise<Reply> }>(app: App, spans: Spans): App {
  const { propagation, ROOT_CONTEXT, SpanKind } = spans.api;
  return {
    ...app,
    handle(request) {
      if (untracedPaths.has(request.path)) return app.handle(request);
      return spans.traced({
        name: "holdfast.request",
        kind: SpanKind.SERVER,
        parent: propagation.extract(ROOT_CONTEXT, request.headers),
        run: () => app.handle(request),
        // The path is not recorded, because it may contain a session id.
        before: () => ({ "http.request.method": request.method }),
        after: ({ status }) => ({
          "http.response.status_code": status,
          ...(status >= 500 && { "error.type": String(status) }),
        }),
      });
    },
  };
}

/** Returns the W3C `traceparent` header, so that another server can continue this trace. Empty if no span is active. */
export function traceHeaders({ api: { context, propagation } }: Spans): { [name: string]: string } {
  const headers = {};
  propagation.inject(context.active(), headers);
  return headers;
}

export function tracedPlay(play: Play, spans: Spans): Play {
  return (rollout, signal) =>
    spans.traced({
      name: "holdfast.rollout",
      kind: spans.api.SpanKind.INTERNAL,
      run: () => play(rollout, signal),
      before: () => rolloutAttributes(rollout),
      after: playedAttributes,
    });
}

function rolloutAttributes({ task, repeat, attempt, session, origin }: Rollout): Attributes {
  return {
    "holdfast.task": task,
    "holdfast.repeat": repeat,
    "holdfast.attempt": attempt,
    "holdfast.session": shortDigest(session),
    ...(origin && { "holdfast.branch": origin.branch }),
  };
}

function playedAttributes(played: Played): Attributes {
  const { outcome } = played;
  if (outcome === "failed") return { "holdfast.outcome": outcome, "error.type": played.failure.kind };
  if (outcome === "forked") return { "holdfast.outcome": outcome };
  const { stopped = outcome, fields } = played;
  const { reward } = fields;
  return { "holdfast.outcome": stopped, ...(typeof reward === "number" && { "holdfast.reward": reward }) };
}

/** Traces one turn of a conversation: the generator that an agent's `run` returns. */
export function tracedRun<Event, Result extends { outcome: string }>(
  agent: string,
  running: AsyncGenerator<Event, Result, undefined>,
  spans: Spans,
): AsyncGenerator<Event, Result, undefined> {
  return spans.tracedGenerator(
    {
      name: "holdfast.run",
      kind: spans.api.SpanKind.INTERNAL,
      before: () => ({ "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent }),
      after: ({ outcome }) => ({
        "holdfast.outcome": outcome,
        ...(outcome === "failed" && { "error.type": "agent_failed" }),
      }),
    },
    running,
  );
}
