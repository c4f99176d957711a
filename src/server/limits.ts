// The server's limits on sizes, times and concurrency.
import { invalidOption } from "../core/errors.ts";
import { refuseUnknown } from "../core/suggest.ts";

export interface Limits {
  /** Bytes per body. Default 4,194,304. */
  body: number;
  /** Total size of a request's headers in bytes. Default 32,768. */
  headers: number;
  /** Maximum nesting depth of a JSON body. Default 500. */
  depth: number;
  /**
   * Maximum number of objects, lists and keys in a JSON body. After an object's first 100 keys, each key counts as
   * five. Default 100,000.
   */
  values: number;
  /** Total size in bytes of all bodies that are still arriving. Default 134,217,728. */
  uploads: number;
  /** Bytes per second at which a body must arrive. Default 1,024. */
  uploadRate: number;
  /**
   * Total length of all replies that wait for clients that read slowly or not at all. Beyond it, the connections with
   * the most unread characters are closed. WebSocket messages have the same limit again. Default 268,435,456.
   */
  unread: number;
  /** Milliseconds within which a request must arrive completely. Default 60,000. */
  requestTimeout: number;
  /**
   * Milliseconds after which the server closes an idle connection. Longer than most clients wait, so that the client
   * closes first. Default 72,000.
   */
  keepAlive: number;
  /**
   * Number of concurrent requests and WebSocket messages, and separately of streams. Additional ones get a 503, or an
   * error message. Default 1,000.
   */
  maxInflight: number;
  /** Number of open WebSockets. Additional ones get a 503. Default 10,000. */
  sockets: number;
  /**
   * Number of requests that may wait for earlier ones on their connection. One more request closes the connection.
   * Default 256.
   */
  pipelined: number;
  /**
   * Milliseconds between the comments that keep a silent stream open, and between pings. A WebSocket that is silent for
   * three times as long is closed. Default 15,000.
   */
  heartbeat: number;
}

const defaultLimits: Limits = {
  body: 4_194_304,
  headers: 32_768,
  depth: 500,
  values: 100_000,
  uploads: 134_217_728,
  uploadRate: 1_024,
  unread: 268_435_456,
  requestTimeout: 60_000,
  keepAlive: 72_000,
  maxInflight: 1_000,
  sockets: 10_000,
  pipelined: 256,
  heartbeat: 15_000,
};

/** Checks the given limits and fills in defaults. */
export function limitsWith(given: Partial<Limits> = {}): Limits {
  refuseUnknown("`limits`", given, { ...defaultLimits }, invalidOption);
  const limits = { ...defaultLimits };
  for (const name of Object.keys(defaultLimits) as (keyof Limits)[]) {
    const value = given[name] ?? limits[name];
    if (!Number.isInteger(value) || value < 1 || value > 2_147_483_647) {
      throw invalidOption(`the limit ${name} must be a positive whole number, not ${value}`);
    }
    limits[name] = value;
  }
  return limits;
}
