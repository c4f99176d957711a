// One request and its whole answer, bounded in time and size, on undici's dispatcher. It is sent at most once.
import type { Dispatcher } from "undici";
import { messageOf } from "../../core/errors.ts";

export interface Reply {
  status: number;
  location: string | undefined;
  text: string;
}

/** Why there is no answer. */
export class Fault extends Error {
  /** Whether anything of the request may have left. What never did has done nothing. */
  readonly sent: boolean;

  constructor(message: string, sent: boolean, options?: { cause: unknown }) {
    super(message, options);
    this.sent = sent;
  }
}

/** The largest answer that is taken: about half of the longest text that V8 can hold. */
const largest = 256 * 1024 * 1024;

/** The share of its time that must be left when it gets a connection. */
const leastShare = 0.1;

/** What large requests and answers get on top: a second for each so many bytes. A server that trickles gains nothing. */
const bytesPerMs = 1024;

/** `patience`: the milliseconds that it may take. */
export function exchange(
  dispatcher: Dispatcher,
  request: Dispatcher.DispatchOptions & { body: string | null },
  patience: number,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let controller: Dispatcher.DispatchController | undefined;
    let head: { status: number; location: string | undefined } | undefined;
    let size = 0;
    let isOver = false;
    let deadline = performance.now() + patience + (request.body?.length ?? 0) / bytesPerMs;
    let timer = setTimeout(late, deadline - performance.now());

    function late(): void {
      const left = deadline - performance.now();
      if (left > 1) timer = setTimeout(late, left);
      else fail("did not answer in time");
    }

    function over(): boolean {
      if (isOver) return true;
      isOver = true;
      clearTimeout(timer);
      return false;
    }

    function fail(message: string, cause?: unknown): void {
      if (over()) return;
      const fault = new Fault(message, controller !== undefined, cause === undefined ? undefined : { cause });
      reject(fault);
      controller?.abort(fault);
    }

    function succeed(head: Omit<Reply, "text">): void {
      let text: string;
      try {
        text = decoder.decode(Buffer.concat(chunks));
      } catch (cause) {
        return fail("answered with what is no UTF-8", cause);
      }
      if (!over()) resolve({ ...head, text });
    }

    dispatcher.dispatch(request, {
      onRequestStart(given) {
        // Given up while it waited for a connection, or about to be: nobody would hear what came of it. Or about to be sent a
        // second time. Either way it must not leave.
        const isLate = deadline - performance.now() < patience * leastShare;
        if (isOver || isLate || controller !== undefined) {
          given.abort(new Fault("is not waited for", false));
          fail(isLate ? "did not answer in time" : "lost the connection");
          return;
        }
        controller = given;
      },
      onResponseStart(_, status, { location }) {
        // Below 200 it is not the answer yet.
        if (status >= 200) head = { status, location: typeof location === "string" ? location : undefined };
      },
      onResponseData(_, chunk) {
        size += chunk.length;
        deadline += chunk.length / bytesPerMs;
        if (size > largest) fail(`answered with more than ${largest / 1024 / 1024} MB`);
        else chunks.push(chunk);
      },
      onResponseEnd() {
        if (head === undefined) fail("ended without an answer");
        else succeed(head);
      },
      onResponseError(_, error) {
        fail(controller === undefined ? "cannot be reached" : "closed the connection before it had answered", error);
      },
    });
  });
}

// Fatal: otherwise bytes that are no text would come back as another text.
const decoder = new TextDecoder("utf-8", { fatal: true });

/** What a client library threw, in words. */
export function reasonOf({ cause }: Fault): string {
  // One error for each address of a name that has several.
  if (cause instanceof AggregateError && cause.errors.length > 0) return messageOf(cause.errors[0]);
  return cause === undefined ? "" : messageOf(cause);
}
