// Spans around work that gives a promise: who its parent is, what is said about it, and that it ends.
import type * as OpenTelemetry from "@opentelemetry/api";
import type { Attributes, Context, Span, SpanKind, Tracer } from "@opentelemetry/api";
import { hash } from "node:crypto";
import { isHoldfastError } from "../core/errors.ts";

/** The API as a whole: it is an optional package, which only `startTelemetry` loads. */
export type Api = typeof OpenTelemetry;

interface Traced<T> {
  name: string;
  kind: SpanKind;
  /** By default what is under way. */
  parent?: Context;
  /** What is known of it before. Asked for only if the span is kept. */
  before(): Attributes;
  /** What is known of it after. One that has `error.type` makes the span a failure. */
  after(value: T): Attributes;
  /** Of what environment the spans below it are. */
  environment?: string;
  run(): Promise<T>;
}

export interface Spans {
  readonly api: Api;
  /** Whether a span is under way. */
  isWithin(): boolean;
  /** The environment that what is under way is of. */
  environment(): string | undefined;
  traced<T>(options: Traced<T>): Promise<T>;
  /** As `traced`, of what yields: it is under way whenever its reader asks for more, and ends with it. */
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

  /** The code alone: what a message says may be out of somebody's state. */
  function fail(span: Span, thrown: unknown): void {
    describe(span, () => ({ "error.type": codeOf(thrown) }));
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
      // What a trace that is not kept would have below it would not be kept either.
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
        // A reader that has read enough leaves here.
        await context.with(inside, () => generator.return(undefined as never));
        span.end();
      }
    },
  };
}

const codeOf = (thrown: unknown): string => (isHoldfastError(thrown) ? thrown.code : "internal");

/** What a session is called in a trace. Its id opens it, and traces are kept by others. */
export const shortDigest = (session: string): string => hash("sha256", session).slice(0, 16);
