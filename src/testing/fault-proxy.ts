// faultProxy(): a TCP proxy on loopback that disturbs the traffic between a store's client and its server.
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { between, chance, pick, randomStream } from "../core/random.ts";

/**
 * `delayed`: a piece of traffic is delayed, and so are the pieces after it. `split`: it arrives in two pieces.
 * `cutBefore`: the connection ends before it. `cutAfter`: the connection ends after it. `silent`: from this piece on,
 * one direction of the connection is lost. Bytes are never changed, reordered or duplicated: TCP does not do that
 * either.
 */
export type ProxyFault = "delayed" | "split" | "cutBefore" | "cutAfter" | "silent";

export interface FaultProxyOptions {
  /** URL of the server, such as redis://127.0.0.1:6379. */
  to: string;
  /** Seed for the randomness. Default 1. */
  seed?: number;
  /** Probability that a piece of traffic has a fault. Default 0.02. */
  rate?: number;
  /** The faults to choose from. Default: all. */
  faults?: readonly [ProxyFault, ...ProxyFault[]];
  /** Longest delay in milliseconds. Default 50. */
  delay?: number;
}

export interface FaultProxy {
  /** The server's URL through the proxy: the URL in `to`, with the proxy's port. */
  readonly url: string;
  /** The number of injected faults so far, cuts and pauses included. */
  readonly injected: number;
  /** Ends every connection now. */
  cut(): void;
  /** Holds back all traffic, including on new connections, until `resume`. */
  pause(): void;
  resume(): void;
  /** Stops injecting faults, ends silent connections and resumes. */
  heal(): void;
  close(): Promise<void>;
}

const all = ["delayed", "split", "cutBefore", "cutAfter", "silent"] as const;
const defaultPorts: { [scheme: string]: number } = { "redis:": 6379, "postgres:": 5432, "postgresql:": 5432 };

/**
 * Starts a proxy in front of a server on a free port of 127.0.0.1.
 *
 * @example
 * const proxy = await faultProxy({ to: "redis://127.0.0.1:6379", rate: 0.05 });
 * const store = redisStore({ url: proxy.url });
 * proxy.pause();
 */
export async function faultProxy(options: FaultProxyOptions): Promise<FaultProxy> {
  const { to, seed = 1, rate = 0.02, faults = all, delay = 50 } = options;
  const target = new URL(to);
  const port = Number(target.port) || (defaultPorts[target.protocol] ?? 80);
  const random = randomStream(seed, 0);
  const sockets = new Set<Socket>();
  const silent = new Set<Socket>();
  let injected = 0;
  let healed = false;
  let paused: { done: Promise<void>; resume(): void } | undefined;

  /** Forwards one direction of a connection, in order. */
  function pass(from: Socket, onto: Socket): void {
    let before = Promise.resolve();
    const next = (step: () => void | Promise<void>): void => void (before = before.then(step));
    const write = (data: Buffer): void => void (onto.destroyed || silent.has(from) || onto.write(data));
    const end = (): void => {
      from.destroy();
      onto.destroy();
    };
    const wait = (): Promise<void> =>
      new Promise((resolve) => {
        setTimeout(resolve, between(random, 0, delay));
      });
    async function disturb(data: Buffer): Promise<void> {
      await paused?.done;
      if (healed || !chance(random, rate)) return write(data);
      injected++;
      switch (pick(random, faults)) {
        case "delayed":
          await wait();
          return write(data);
        case "split": {
          const at = between(random, 0, data.length);
          write(data.subarray(0, at));
          await wait();
          return write(data.subarray(at));
        }
        case "cutBefore":
          return end();
        case "cutAfter":
          write(data);
          onto.end();
          return void from.destroy();
        case "silent":
          return void silent.add(from);
      }
    }
    from.on("data", (data) => next(() => disturb(data)));
    from.on("error", () => undefined);
    from.on("close", () => {
      sockets.delete(from);
      silent.delete(from);
      next(() => void onto.end());
    });
    sockets.add(from);
  }

  const server = createServer((near) => {
    const far = connect(port, target.hostname.replace(/^\[(.*)\]$/, "$1"));
    pass(near, far);
    pass(far, near);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const through = new URL(to);
  through.hostname = "127.0.0.1";
  through.port = String((server.address() as AddressInfo).port);

  function cut(): void {
    injected++;
    for (const socket of sockets) socket.destroy();
  }

  function pause(): void {
    if (paused) return;
    injected++;
    let resume = (): void => undefined;
    const done = new Promise<void>((resolve) => {
      resume = resolve;
    });
    paused = { done, resume };
  }

  function resume(): void {
    paused?.resume();
    paused = undefined;
  }

  return {
    url: through.href,
    get injected() {
      return injected;
    },
    cut,
    pause,
    resume,
    heal() {
      healed = true;
      for (const socket of silent) socket.destroy();
      resume();
    },
    async close() {
      resume();
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
