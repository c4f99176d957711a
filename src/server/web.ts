// serveFetch(): answers web Requests with web Responses, without a port, and enforces the limits.
import type { IncomingMessage } from "node:http";
import { HoldfastError, isHoldfastError, messageOf } from "../core/errors.ts";
import type { Reply } from "../core/protocol.ts";
import type { App } from "./app.ts";
import { bodyFault, createShapeCheck, parseBody, tooLarge } from "./body.ts";
import type { Limits } from "./limits.ts";
import { HostRequest } from "./request.ts";
import { unreadable } from "./uploads.ts";

interface OpenStream {
  reply: Reply;
  /** Once the app is stopping, cuts the stream if its reader does not continue to read. */
  awaitReader(): void;
  /** Ends the stream. With an error, its reader gets the error. */
  end(error?: Error): void;
}

export function serveFetch(app: App, limits: Limits) {
  const { metrics } = app;
  const open = new Set<OpenStream>();
  let streams = 0;
  /** Bytes of all bodies that are not parsed yet. */
  let held = 0;
  let working = 0;
  let allDone: (() => void) | undefined;

  const left = (): void => {
    if (working === 0 && open.size === 0) allDone?.();
  };

  /** `target`: the path and the query, relative to the app. */
  async function answer(given: Request, target: string): Promise<Response> {
    const request = toHostRequest(given, target);
    const leave = (): void => request.leave();
    given.signal.addEventListener("abort", leave, { once: true });
    working++;
    try {
      const reply = await reach(given, request);
      // The client has disconnected, so nobody waits for the reply.
      if (given.signal.aborted) request.leave();
      return respond(given, request, reply);
    } finally {
      working--;
      // A stream listens to the signal itself.
      given.signal.removeEventListener("abort", leave);
      left();
    }
  }

  /** Reads the body and passes the request to the app. */
  async function reach(given: Request, request: HostRequest): Promise<Reply> {
    const fault = request.fault();
    if (fault !== undefined) return app.refuse(request, new HoldfastError("invalid_request", fault));
    const isProbe = request.path === "/healthz" || request.path === "/readyz";
    if (allDone && !isProbe) {
      return app.refuse(request, new HoldfastError("server_stopping", "the server is shutting down"));
    }
    if (metrics.inflight >= limits.maxInflight && !isProbe) {
      const message = `the server has ${limits.maxInflight} requests in progress; try again later`;
      return app.refuse(request, new HoldfastError("too_busy", message));
    }
    try {
      if (given.body) request.body = await readBody(given.body, request);
    } catch (thrown) {
      if (!isHoldfastError(thrown)) throw thrown;
      return app.refuse(request, thrown);
    }
    metrics.inflight++;
    try {
      return await app.handle(request);
    } finally {
      metrics.inflight--;
    }
  }

  async function readBody(body: ReadableStream<Uint8Array>, { headers }: HostRequest): Promise<unknown> {
    const fault = bodyFault({ headers } as IncomingMessage, limits);
    if (fault) throw fault;
    const reader = body.getReader();
    const checkShape = createShapeCheck(limits);
    const chunks: Buffer[] = [];
    let size = 0;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const message = `the body did not arrive within ${limits.requestTimeout} ms`;
      timer = setTimeout(() => reject(new HoldfastError("request_timeout", message)), limits.requestTimeout);
    });
    metrics.arriving++;
    try {
      for (;;) {
        const { done, value } = await Promise.race([reader.read(), late]);
        if (done) break;
        const chunk = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
        size += chunk.length;
        held += chunk.length;
        if (size > limits.body) throw tooLarge(limits);
        if (held > limits.uploads) {
          throw new HoldfastError("too_busy", "the server is receiving too many large bodies at once; try again later");
        }
        const shape = checkShape(chunk);
        if (shape !== undefined) throw unreadable(shape);
        chunks.push(chunk);
      }
      return size === 0 ? undefined : parseBody(chunks, size);
    } catch (thrown) {
      void reader.cancel().catch(() => undefined);
      throw isHoldfastError(thrown) ? thrown : unreadable(messageOf(thrown));
    } finally {
      clearTimeout(timer);
      metrics.arriving--;
      held -= size;
    }
  }

  function respond(given: Request, request: HostRequest, reply: Reply): Response {
    try {
      if (!reply.stream) return wholeResponse(reply, given.method === "HEAD");
      const isUnread = given.method === "HEAD" || given.signal.aborted;
      if (isUnread || (allDone && !reply.isRun) || streams >= limits.maxInflight) {
        // The stream will not be read, so its producer must stop waiting for a reader.
        request.leave();
        if (isUnread) return wholeResponse({ status: reply.status, headers: reply.headers ?? {} }, true);
        const message = `the server has ${streams} streams open; try again later`;
        return wholeResponse(app.refuse(request, new HoldfastError("too_busy", message)), false);
      }
      const headers = { ...reply.headers, "cache-control": "no-store", "x-accel-buffering": "no" };
      const typed = { "content-type": "text/event-stream", ...headers };
      return new Response(streamBody(given, request, reply, reply.stream), {
        status: reply.status,
        headers: typed,
      });
    } catch (cause) {
      const message = "the reply cannot be written as JSON; the server's log has the cause";
      return wholeResponse(app.refuse(request, new HoldfastError("internal", message, { cause })), false);
    }
  }

  /** Sends a stream as fast as it is read. It ends when the client leaves or the app closes. */
  function streamBody(
    given: Request,
    request: HostRequest,
    reply: Reply,
    stream: AsyncIterable<string>,
  ): ReadableStream<Uint8Array> {
    const iterator = stream[Symbol.asyncIterator]();
    const encoder = new TextEncoder();
    let isOver = false;
    let isPulled = false;
    let unread: NodeJS.Timeout | undefined;
    let comments: NodeJS.Timeout | undefined;
    let sending: ReadableStreamDefaultController<Uint8Array> | undefined;

    async function next(): Promise<IteratorResult<string>> {
      for (;;) {
        const result = await iterator.next();
        if (result.done || result.value !== "") return result;
      }
    }
    /** Ends the stream once. */
    function end(isComplete: boolean): void {
      if (isOver) return;
      isOver = true;
      clearInterval(comments);
      clearTimeout(unread);
      given.signal.removeEventListener("abort", abandon);
      open.delete(own);
      streams--;
      metrics.streams--;
      if (!isComplete) {
        request.leave();
        // Does not wait for the return, because a stream that is waiting for an event returns only after that event.
        void Promise.resolve(iterator.return?.()).catch((thrown: unknown) => app.log.error("a stream failed", thrown));
      }
      left();
    }
    function endEarly(error?: Error): void {
      if (isOver) return;
      end(false);
      // A reader that has cancelled the stream has closed it already.
      if (error) sending?.error(error);
      else sending?.close();
    }
    const abandon = (): void => endEarly();
    function awaitReader(): void {
      if (isOver || isPulled || !allDone) return;
      const message = `the client did not read the stream for ${limits.requestTimeout} ms while the server was stopping`;
      unread = setTimeout(() => endEarly(new Error(message)), limits.requestTimeout);
    }
    const own: OpenStream = { reply, awaitReader, end: endEarly };

    streams++;
    metrics.streams++;
    open.add(own);
    given.signal.addEventListener("abort", abandon, { once: true });
    return new ReadableStream<Uint8Array>({
      start(controller) {
        sending = controller;
        comments = setInterval(() => {
          if (!reply.quiet && (controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(": still here\n\n"));
        }, limits.heartbeat);
      },
      async pull(controller) {
        clearTimeout(unread);
        isPulled = true;
        try {
          const { done, value } = await next();
          isPulled = false;
          if (isOver) return;
          if (!done) {
            controller.enqueue(encoder.encode(value));
            return awaitReader();
          }
          end(true);
          controller.close();
        } catch (thrown) {
          if (isOver) return;
          app.log.error("a stream failed", thrown);
          end(true);
          // Cuts the stream rather than ending it, because a client must not mistake a part for the whole.
          controller.error(thrown);
        }
      },
      cancel: () => end(false),
    });
  }

  return {
    answer,
    /**
     * Refuses new requests, ends streams except runs, and resolves when no request is active. The stream of a run that
     * nobody reads is cut.
     */
    async stop(): Promise<void> {
      const done = new Promise<void>((resolve) => (allDone = resolve));
      for (const stream of open) {
        if (stream.reply.isRun) stream.awaitReader();
        else stream.end();
      }
      left();
      await done;
    },
    /** Lets `stop` resolve without waiting for active requests. Cuts the streams of runs. */
    abandon(): void {
      for (const stream of open) stream.end(new Error("the server closed before the run ended"));
      allDone?.();
    },
  };
}

function toHostRequest(given: Request, target: string): HostRequest {
  const { host, protocol } = new URL(given.url);
  // Adds the Host header, which some runtimes remove.
  const headers = { host, ...Object.fromEntries(given.headers) };
  if (protocol === "https:") Object.assign(headers, { "x-forwarded-proto": "https" });
  return new HostRequest({ method: given.method, url: target, headers } as unknown as IncomingMessage);
}

function wholeResponse(reply: Reply, isHead: boolean): Response {
  const { status, text = reply.body === undefined ? undefined : JSON.stringify(reply.body) } = reply;
  const headers = new Headers(reply.headers);
  const type = reply.text === undefined ? "application/json" : "text/plain; charset=utf-8";
  if (text !== undefined && !headers.has("content-type")) headers.set("content-type", type);
  return new Response(isHead ? null : (text ?? null), { status, headers });
}
