// createSpans(): records spans around promises and generators, with their parent, attributes and outcome.
import type * as OpenTelemetry from "@opentelemetry/api";
import type { Attributes, Context, Span, SpanKind, Tracer } from "@opentelemetry/api";
import { hash } from "node:crypto";
import { isHoldfastError } from "../core/errors.ts";

/** The whole API as a type, because the package is optional and only `startTelemetry` loads it. */
export type Api = typeof OpenTelemetry;

interface Traced<T> {
  name: string;
  kind: SpanKind;
  /** Default: the active context. */
  parent?: Context;
  /** Attributes known at the start. Called only if the span is recorded. */
  before(): Attributes;
  /** Attributes known at the end. An `error.type` marks the span as failed. */
  after(value: T): Attributes;
  /** The environment name for child spans. */
  environment?: string;
  run(): Promise<T>;
}

export interface Spans {
  readonly api: Api;
  /** Returns whether a span is active. */
  isWithin(): boolean;
  /** The environment of the active context. */
  environment(): string | undefined;
  traced<T>(options: Traced<T>): Promise<T>;
  /** Like `traced`, for a generator. The span is active while the generator runs, and ends with it. */
  tracedGenerator<Event, Result>(
    options: Omit<Traced<Result>, "run">,
    generator: AsyncGenerator<Event, Result, undefined>,
  ): AsyncGenerator<Event, Result, undefined>;
}

export function createSpans(api: Api, tracer: Tracer): Spans {
  const { context, trace } = api;
  const environmentKey = api.createContextKey("holdfast.environment");

  function describe(span: Span, attributes: () => Attributes): void {
    if (!span.isRecording()) return;
    const said = attributes();
    span.setAttributes(said);
    if (said["error.type"] !== undefined) span.setStatus({ code: api.SpanStatusCode.ERROR });
  }

  /** Records only the error code, because an error message may contain parts of a state. */
  function fail(span: Span, thrown: unknown): void {
    describe(span, () => ({ "error.type": errorCode(thrown) }));
  }

  function start({ name, kind, parent = context.active(), before, environment }: Omit<Traced<never>, "run" | "after">) {
    const span = tracer.startSpan(name, { kind }, parent);
    describe(span, before);
    const inside = trace.setSpan(parent, span);
    return { span, inside: environment === undefined ? inside : inside.setValue(environmentKey, environment) };
  }

  return {
    api,
    isWithin: () => trace.getActiveSpan() !== undefined,
    environment: () => context.active().getValue(environmentKey) as string | undefined,
    async traced({ run, after, ...options }) {
      // Skips tracing inside a span that is not recorded.
      if (!options.parent && trace.getActiveSpan()?.isRecording() === false) return run();
      const { span, inside } = start(options);
      try {
        const value = await context.with(inside, run);
        describe(span, () => after(value));
        return value;
      } catch (thrown) {
        fail(span, thrown);
        throw thrown;
      } finally {
        span.end();
      }
    },
    async *tracedGenerator({ after, ...options }, generator) {
      const { span, inside } = start(options);
      try {
        for (;;) {
          const { value, done } = await context.with(inside, () => generator.next());
          if (done) {
            describe(span, () => after(value));
            return value;
          }
          yield value;
        }
      } catch (thrown) {
        fail(span, thrown);
        throw thrown;
      } finally {
        // This also runs when the reader stops early.
        await context.with(inside, () => generator.return(undefined as never));
        span.end();
      }
    },
  };
}

const errorCode = (thrown: unknown): string => (isHoldfastError(thrown) ? thrown.code : "internal");

/** Returns a session's name for traces, which are stored elsewhere. Its id would grant access to the session. */
export const shortDigest = (session: string): string => hash("sha256", session).slice(0, 16);
