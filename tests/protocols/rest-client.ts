// A small REST client without a port: requests go straight to the protocol, and refusals return as replies.
import { isHoldfastError, type Sessions } from "holdfast";
import type { AnyEnvironment } from "../../src/core/environment.ts";
import type { SessionPlayer } from "../../src/rollout/play/continue-session.ts";
import type { Protocol, Request } from "../../src/core/protocol.ts";
import { restProtocol } from "../../src/protocols/rest.ts";

export interface Asked {
  body?: unknown;
  headers?: Request["headers"];
  signal?: AbortSignal;
}

/** A reply, typed as loosely as a program in another language would read it. */
export interface Got {
  status: number;
  body: any; // eslint-disable-line typescript/no-explicit-any
  text: string | undefined;
  stream: AsyncIterable<string> | undefined;
  headers: { [name: string]: string };
}

export type Client = (method: string, target: string, asked?: Asked) => Promise<Got>;

/** Converts a value to JSON and back, as the wire does. */
const overTheWire = (value: unknown): unknown =>
  value === undefined ? undefined : (JSON.parse(JSON.stringify(value)) as unknown);

export function requestOf(method: string, target: string, asked: Asked = {}): Request {
  const [path = "", query = ""] = target.split("?");
  const { body, headers = {}, signal = new AbortController().signal } = asked;
  return { method, path, query: new URLSearchParams(query), headers, body: overTheWire(body), signal };
}

export function clientOf<E extends AnyEnvironment>(
  sessions: Sessions<E>,
  sessionPlayer?: SessionPlayer,
): Client & { protocol: Protocol } {
  return clientFor(restProtocol({ sessions, sessionPlayer }));
}

export function clientFor(protocol: Protocol): Client & { protocol: Protocol } {
  const client: Client = async (method, target, asked) => {
    try {
      const reply = await protocol.handle(requestOf(method, target, asked));
      if (!reply) throw new Error(`${method} ${target} is not served`);
      const { status, text, stream, headers = {} } = reply;
      // Some replies are JSON texts that the server keeps.
      if (text !== undefined && headers["content-type"] === "application/json") {
        return { status, body: JSON.parse(text), text: undefined, stream, headers };
      }
      return { status, body: overTheWire(reply.body), text, stream, headers };
    } catch (thrown) {
      if (!isHoldfastError(thrown)) throw thrown;
      return { status: thrown.status, body: overTheWire(thrown), text: undefined, stream: undefined, headers: {} };
    }
  };
  return Object.assign(client, { protocol });
}
