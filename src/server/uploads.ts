// createUploads(): reads request bodies. Large and slow ones are read and parsed in turns, so that the event loop stays
// free.
import type { IncomingMessage } from "node:http";
import { HoldfastError, messageOf } from "../core/errors.ts";
import { createShapeCheck, parseBody, tooLarge } from "./body.ts";
import type { Limits } from "./limits.ts";
import { createTurns } from "./turns.ts";

/** Bytes above which a body takes turns with other large bodies. */
const largeBody = 65_536;
/** Number of large bodies that are read in one turn of the event loop. One read of a body is about 64 KB. */
const readsPerTurn = 4;
/** After this many small reads, a body is read once per tick. */
const mostSmallReads = 16;
const smallRead = 1_024;
/** Milliseconds between two checks of a body's rate. */
const rateWindow = 5_000;

/** A body, from its headers until it is parsed or refused. */
export interface Upload {
  /** Called once per tick. Returns the reason to refuse the body, if there is one. */
  tick(): HoldfastError | undefined;
  /** Discards the body, because its client has disconnected or was refused. */
  end(): void;
}

export interface UploadsOptions {
  limits: Limits;
  /** Milliseconds of a tick. */
  tick: number;
  /** Counts the bodies that are arriving. */
  metrics: { arriving: number };
}

export function createUploads({ limits, tick, metrics }: UploadsOptions) {
  const readInTurn = createTurns(readsPerTurn);
  const parseInTurn = createTurns(1);
  const timeoutTicks = Math.ceil(limits.requestTimeout / tick);
  const rateTicks = Math.ceil(rateWindow / tick);
  // Bytes of all bodies that are not parsed yet.
  let held = 0;

  /**
   * Continues reading when it is this body's turn. The body with the most bytes so far is first, so that few bodies are
   * in memory at the same time.
   */
  function takeTurn(incoming: IncomingMessage, size: number, onTurn?: () => void): void {
    incoming.pause();
    readInTurn(() => {
      onTurn?.();
      incoming.resume();
    }, size);
  }

  return {
    /**
     * Reads a body and calls `done` once, or never if it is ended first. The rest of a refused body is read and
     * discarded, so the connection can carry the next request.
     */
    begin(incoming: IncomingMessage, done: (fault: HoldfastError | undefined, body?: unknown) => void): Upload {
      const { socket } = incoming;
      const chunks: Buffer[] = [];
      let checkShape: ReturnType<typeof createShapeCheck> | undefined;
      let state: "reading" | "whole" | "over" = "reading";
      let size = 0;
      let scanned = 0;
      let pieces = 0;
      let bytesRead = 0;
      let isPaused = false;
      let isWaiting = false;
      let age = 0;
      let checked = { age: 0, size: 0 };
      metrics.arriving++;

      function end(): void {
        if (state === "over") return;
        state = "over";
        metrics.arriving--;
        held -= size;
        chunks.length = 0;
        if (isPaused) socket.resume();
        // Also cancels a pause that is still scheduled.
        isPaused = false;
      }

      function wait(priority: number): void {
        isWaiting = true;
        takeTurn(incoming, priority, () => (isWaiting = false));
      }

      function refuse(fault: HoldfastError): void {
        end();
        done(fault);
      }

      function faultAfter(chunk: Buffer): HoldfastError | undefined {
        size += chunk.length;
        held += chunk.length;
        if (size > limits.body) return tooLarge(limits);
        if (held > limits.uploads) {
          const message = "the server is receiving too many large bodies at once; try again later";
          return new HoldfastError("too_busy", message);
        }
        chunks.push(chunk);
        // Short bodies are not scanned, because too deep nesting needs at least two brackets per level.
        if (size <= limits.depth * 2) return undefined;
        checkShape ??= createShapeCheck(limits);
        let fault: string | undefined;
        while (fault === undefined && scanned < chunks.length) fault = checkShape(chunks[scanned++] as Buffer);
        return fault === undefined ? undefined : unreadable(fault);
      }

      /** Lets bytes that arrive one by one wait in the operating system, which then delivers them together. */
      function slowDown(): void {
        const before = bytesRead;
        bytesRead = socket.bytesRead;
        if (bytesRead === before || bytesRead - before > smallRead) return;
        isPaused = true;
        // Pauses the body later, because Node starts to read again after this piece.
        setImmediate(() => void (isPaused && socket.pause()));
      }

      function parse(): void {
        let body: unknown;
        try {
          body = chunks.length === 0 ? undefined : parseBody(chunks, size);
        } catch (thrown) {
          return refuse(unreadable(messageOf(thrown)));
        }
        const isLarge = size > largeBody;
        end();
        // Handled before the next body is parsed: a parsed body takes up to thirty times the memory of its bytes.
        if (isLarge) parseInTurn(() => done(undefined, body), 1);
        else done(undefined, body);
      }

      incoming.on("data", (chunk: Buffer) => {
        const fault = state === "reading" ? faultAfter(chunk) : undefined;
        if (fault) refuse(fault);
        if (state === "over") takeTurn(incoming, 0);
        else if (size > largeBody) wait(size);
        else if (++pieces > mostSmallReads) slowDown();
      });
      if (Number(incoming.headers["content-length"]) > largeBody) wait(0);
      incoming.on("end", () => {
        if (state !== "reading") return;
        if (size <= largeBody) return parse();
        state = "whole";
        parseInTurn(() => void (state === "whole" && parse()));
      });

      return {
        end,
        tick() {
          if (isPaused) socket.resume();
          isPaused = false;
          // A body that is waiting for others to be read does not count as slow.
          if (state !== "reading" || isWaiting) return undefined;
          if (++age > timeoutTicks) return tooSlow(`the body did not arrive within ${limits.requestTimeout} ms`);
          if (age - checked.age < rateTicks) return undefined;
          const least = (limits.uploadRate * (age - checked.age) * tick) / 1_000;
          if (size - checked.size < least) {
            return tooSlow(`the body arrives at less than ${limits.uploadRate} bytes per second`);
          }
          checked = { age, size };
          return undefined;
        },
      };
    },
    /** Discards a body that was refused because of its headers. */
    discard(incoming: IncomingMessage): void {
      incoming.on("data", () => takeTurn(incoming, 0));
    },
  };
}

const tooSlow = (message: string): HoldfastError => new HoldfastError("request_timeout", message);

export const unreadable = (why: string): HoldfastError =>
  new HoldfastError("invalid_json", `cannot read the body: ${why.slice(0, 300)}`);
