// serve(): serves environments and agents over HTTP, on a port.
import { invalidOption } from "../core/errors.ts";
import { refuseUnknown } from "../core/suggest.ts";
import { assemble, servedOptions, type ServedOptions } from "./assemble.ts";
import { listen } from "./host.ts";
import type { MetricsReport } from "./metrics.ts";
import type { UserToken } from "./user-tokens.ts";

export type { Runner, ServedOptions, ServedRollouts } from "./assemble.ts";
export type { UserToken } from "./user-tokens.ts";
export type { Channel, DecoratingProtocol, Message, Protocol, Reply, Request, Tokens } from "../core/protocol.ts";
export type { Running, ServedAgent } from "../protocols/http/running.ts";
export type { Telemetry } from "../telemetry/start.ts";
export type { Limits } from "./limits.ts";
export type { LogOptions } from "./log.ts";
export type { MetricsReport } from "./metrics.ts";
export { createTokens, keysFromStore } from "./tokens.ts";
export { mount, type Mounted, type MountOptions } from "./mount.ts";

export interface ServeOptions extends ServedOptions {
  /** Default 127.0.0.1. */
  host?: string;
  /** 0 picks a free port. */
  port: number;
}

export interface Serving {
  /** Returns the metrics of this process. */
  report(): Promise<MetricsReport>;
  /** The server's URL, for example http://127.0.0.1:8080. */
  readonly url: string;
  /**
   * Signs a token that opens only the conversations of one user. `expires`: in milliseconds since 1970; by default in
   * 24 hours.
   */
  userToken(user: string, expires?: number): UserToken;
  /** Refuses new calls and finishes calls in flight. A second close ends immediately. The store stays open. */
  close(): Promise<void>;
}

/**
 * Serves environments and agents over HTTP: the gym protocol, the REST API, metrics and the viewer.
 *
 * @example
 * const { url, close } = await serve({ environments: [counter], agents: [greeter], store: memoryStore(), port: 8080 });
 */
export async function serve(options: ServeOptions): Promise<Serving> {
  refuseUnknown("serve", options, { ...servedOptions, host: true, port: true }, invalidOption);
  const { host = "127.0.0.1", port, limits } = options;
  const { app, userToken, stop, close } = await assemble(options);
  const listening = await listen(app, { host, port, limits }).catch(async (thrown: unknown) => {
    await stop();
    throw thrown;
  });
  return {
    url: listening.url,
    report: () => app.metrics.report(),
    userToken,
    close: () => close(listening.close),
  };
}
