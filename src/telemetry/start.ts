// startTelemetry(): sends OpenTelemetry traces if an endpoint is configured. Otherwise it loads nothing.
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { hostname } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import type { Agent } from "../core/agent.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { Reply, Request } from "../core/protocol.ts";
import type { Play } from "../core/rollout.ts";
import type { Sessions } from "../core/sessions.ts";
import type { Store } from "../core/store.ts";
import { tracedAgent } from "./model.ts";
import { tracedSessions } from "./sessions.ts";
import { createSpans } from "./spans.ts";
import { tracedStore } from "./store.ts";
import { traceHeaders, tracedPlay, tracedRequests, tracedRun } from "./root-spans.ts";

/** Each method returns a traced version of its argument. */
export interface Telemetry {
  /** `url`: the URL that the store was opened with; spans show only the kind of store. */
  store(store: Store, url: string): Store;
  sessions<E extends AnyEnvironment>(sessions: Sessions<E>): Sessions<E>;
  agent<A extends Agent>(agent: A): A;
  play(play: Play): Play;
  run<Event, Result extends { outcome: string }>(
    agent: string,
    running: AsyncGenerator<Event, Result, undefined>,
  ): AsyncGenerator<Event, Result, undefined>;
  requests<App extends { handle(request: Request): Promise<Reply> }>(app: App): App;
  /** Headers for a request to another server, so that its spans join this trace. */
  headers(): { [name: string]: string };
  /** Sends the remaining spans, within a time limit. Can be called twice. */
  stop(): Promise<void>;
}

type Variables = { readonly [name: string]: string | undefined };

const packages = ["api", "sdk-trace-node", "resources", "exporter-trace-otlp-http"];
/** Maximum milliseconds for sending the remaining spans. */
const flushTimeout = 2_000;
/** Milliseconds between two messages about failed exports. */
const complaintInterval = 60_000;

/**
 * Starts tracing if OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set. The packages read
 * OpenTelemetry's other variables themselves.
 */
export async function startTelemetry(variables: Variables): Promise<Telemetry | undefined> {
  if (!isOn(variables)) return undefined;
  const protocol = variables["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] ?? variables["OTEL_EXPORTER_OTLP_PROTOCOL"];
  if (protocol === "grpc") {
    const message = "traces can be sent only over HTTP: use the collector's port for OTLP over HTTP, usually 4318";
    throw invalidOption(`${message}, and do not set the protocol to grpc`);
  }
  const [api, sdk, resources, { OTLPTraceExporter }] = await loaded();
  api.diag.setLogger(complaints(), { logLevel: api.DiagLogLevel.WARN, suppressOverrideMessage: true });
  const agents: HttpAgent[] = [];
  const exporter = new OTLPTraceExporter({
    httpAgentOptions: (scheme) => {
      const agent = scheme === "https:" ? new HttpsAgent({ keepAlive: true }) : new HttpAgent({ keepAlive: true });
      agents.push(agent);
      return agent;
    },
  });
  const { detectResources, envDetector, resourceFromAttributes, serviceInstanceIdDetector } = resources;
  const own = { "service.name": "holdfast", "host.name": hostname(), "process.pid": process.pid };
  const detected = detectResources({ detectors: [serviceInstanceIdDetector, envDetector] });
  const provider = new sdk.NodeTracerProvider({
    resource: resourceFromAttributes(own).merge(detected),
    spanProcessors: [new sdk.BatchSpanProcessor(exporter)],
  });
  // The provider is registered globally, so that spans in an author's code become children of this trace.
  provider.register();
  const spans = createSpans(api, provider.getTracer("holdfast"));
  let stopping: Promise<void> | undefined;
  return {
    store: (store, url) => tracedStore(store, url, spans),
    sessions: (sessions) => tracedSessions(sessions, spans),
    agent: (agent) => tracedAgent(agent, spans),
    play: (play) => tracedPlay(play, spans),
    run: (agent, running) => tracedRun(agent, running, spans),
    requests: (app) => tracedRequests(app, spans),
    headers: () => traceHeaders(spans),
    stop() {
      const sent = async (): Promise<void> => {
        // The work is finished at this point, so spans that cannot be sent must not make it fail.
        const flushed = provider.shutdown().catch(() => undefined);
        await Promise.race([flushed, delay(flushTimeout, undefined, { ref: false })]);
        for (const agent of agents) agent.destroy();
      };
      return (stopping ??= sent());
    },
  };
}

function isOn(variables: Variables): boolean {
  if (variables["OTEL_SDK_DISABLED"]?.toLowerCase() === "true") return false;
  const endpoint = variables["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] || variables["OTEL_EXPORTER_OTLP_ENDPOINT"];
  return endpoint !== undefined && endpoint !== "";
}

async function loaded() {
  try {
    return await Promise.all([
      import("@opentelemetry/api"),
      import("@opentelemetry/sdk-trace-node"),
      import("@opentelemetry/resources"),
      import("@opentelemetry/exporter-trace-otlp-http"),
    ]);
  } catch (cause) {
    const names = packages.map((name) => `@opentelemetry/${name}`).join(" ");
    const message = `OTEL_EXPORTER_OTLP_ENDPOINT is set, but the packages for traces are missing; run \`npm install ${names}\``;
    throw new HoldfastError("missing_dependency", message, { cause });
  }
}

/** Writes export failures to standard error, rate-limited, because a collector may be unreachable for a long time. */
function complaints() {
  let said = -complaintInterval;
  const say = (message: string): void => {
    const now = performance.now();
    if (now - said < complaintInterval) return;
    said = now;
    const [, plain = message] = /"message":"([^"]*)"/.exec(message) ?? [];
    process.stderr.write(`traces cannot be sent and are lost; everything else keeps working: ${plain.slice(0, 300)}\n`);
  };
  const nothing = (): void => undefined;
  return { error: say, warn: say, info: nothing, debug: nothing, verbose: nothing };
}
