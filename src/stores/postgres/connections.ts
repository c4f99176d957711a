// Connections to a Postgres: a few, opened when needed, given up by the clock, and replaced when they broke.
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type * as Pg from "pg";
import { HoldfastError } from "../../core/errors.ts";
import { coded, isCut, isPassing, isRace, isReadOnly, isRefusal, isStrayed, patience, TimeIsUp } from "./failures.ts";
import { prepareSchema } from "./schema.ts";

export interface Target {
  /** What pg is given: the URL without what is ours. */
  url: string;
  /** The same as it may be shown. */
  name: string;
  schema: string;
  connections: number;
}

/** A statement. One with a name is kept ready by the server, where that works. */
export interface Statement {
  text: string;
  name?: string;
}

/** A statement under a name that no other text has, whichever version of us is at the same server. */
export function keptReady(text: string): Statement {
  return { text, name: `holdfast_${createHash("sha256").update(text).digest("hex").slice(0, 24)}` };
}

interface Connection {
  client: Pg.Client;
  socket: Socket;
  broken: boolean;
}

export type Connections = ReturnType<typeof createConnections>;

export function createConnections({ url, name, schema, connections }: Target) {
  const { Client } = loadPg();
  const all = new Set<Connection>();
  const idle: Connection[] = [];
  // Whoever has a permit has a connection, or is about to.
  let permits = connections;
  const waiting = new Set<() => void>();
  let prepared = false;
  // Not through a pooler that gives each transaction another connection to the server, which the first failure shows.
  let keepsReady = true;
  // Why there is no connection, for those who wait for one.
  let problem: unknown;

  async function connect(deadline: number): Promise<Connection> {
    const socket = new Socket();
    const client = new Client({
      connectionString: url,
      fallback_application_name: "holdfast",
      keepAlive: true,
      stream: () => socket,
    });
    const connection: Connection = { client, socket, broken: false };
    const lose = (): void => {
      connection.broken = true;
      all.delete(connection);
      if (idle.includes(connection)) idle.splice(idle.indexOf(connection), 1);
    };
    client.on("error", lose);
    client.on("end", lose);
    try {
      all.add(connection);
      await inTime(connection, deadline, () => client.connect());
      if (!prepared) {
        const query = (text: string) => inTime(connection, deadline, () => client.query<{ version: unknown }>(text));
        await prepareSchema(async (text) => (await query(text)).rows, schema, name);
        prepared = true;
      }
      return connection;
    } catch (cause) {
      lose();
      socket.destroy();
      throw cause;
    }
  }

  function permit(deadline: number): Promise<void> | undefined {
    if (permits > 0) {
      permits--;
      return undefined;
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        waiting.delete(next);
        reject(problem ?? new TimeIsUp(`had no connection free within ${patience / 1000} s`));
      }, deadline - performance.now());
      const next = (): void => {
        clearTimeout(timer);
        resolve();
      };
      waiting.add(next);
    });
  }

  function givePermit(): void {
    const [next] = waiting;
    if (next === undefined) permits++;
    else {
      waiting.delete(next);
      next();
    }
  }

  /** A connection, kept or new. Tries again while there is time: until then nothing was sent. */
  async function connected(deadline: number): Promise<Connection> {
    let reason: unknown;
    for (;;) {
      const kept = idle.pop();
      if (kept !== undefined) return kept;
      try {
        const connection = await connect(deadline);
        problem = undefined;
        return connection;
      } catch (cause) {
        if (cause instanceof TimeIsUp && reason !== undefined) throw new TimeIsUp(cause.message, { cause: reason });
        reason = problem = cause;
        const left = deadline - performance.now();
        if (!isPassing(cause) || left <= 0) throw cause;
        await delay(Math.min(50 + Math.random() * 100, left));
      }
    }
  }

  /** One try on a connection. What the server refused leaves the connection good, and nothing else does. */
  async function attempt<Row>(connection: Connection, wanted: Statement, values: unknown[], deadline: number) {
    const { client, socket } = connection;
    const query = keepsReady ? { ...wanted, values } : { text: wanted.text, values };
    try {
      return (await inTime(connection, deadline, () => client.query<Row & object>(query))).rows as Row[];
    } catch (cause) {
      if (!isRefusal(cause) || isReadOnly(cause)) {
        connection.broken = true;
        all.delete(connection);
        socket.destroy();
      }
      throw cause;
    }
  }

  /**
   * Runs a statement, within the time. It is sent again only where the server said that it changed nothing, or where
   * `repeatable` says that it does no harm.
   */
  async function run<Row>(wanted: Statement, values: unknown[], deadline: number, repeatable: boolean): Promise<Row[]> {
    for (;;) {
      try {
        await permit(deadline);
        let connection: Connection | undefined;
        try {
          connection = await connected(deadline);
          return await attempt<Row>(connection, wanted, values, deadline);
        } finally {
          if (connection !== undefined && !connection.broken) idle.push(connection);
          givePermit();
        }
      } catch (cause) {
        const again = isStrayed(cause) || isRace(cause) || (repeatable && isCut(cause) && isPassing(cause));
        if (isStrayed(cause)) keepsReady = false;
        if (!again || performance.now() >= deadline) throw coded(cause, name);
        if (!isStrayed(cause)) await delay(Math.random() * 10);
      }
    }
  }

  return {
    run,
    /** Why the last try to connect failed, if it did. */
    problem: () => problem,
    /** Ends all connections. Whoever uses one is cut off. */
    async end(): Promise<void> {
      await Promise.all([...all].map(farewell));
    },
  };
}

/** Takes leave of the server, but waits for no answer of one that gives none. */
async function farewell({ client, socket }: Connection): Promise<void> {
  if (socket.destroyed) return;
  const closed = new Promise((resolve) => socket.once("close", resolve));
  const timer = setTimeout(() => socket.destroy(), 300);
  client.end().catch(() => {});
  await closed;
  clearTimeout(timer);
}

/** Waits for an answer until the time is up, and then leaves the connection: a server that is paused never answers. */
async function inTime<T>({ socket }: Connection, deadline: number, work: () => Promise<T>): Promise<T> {
  let late = false;
  const timer = setTimeout(
    () => {
      late = true;
      socket.destroy();
    },
    Math.max(deadline - performance.now(), 0),
  );
  try {
    return await work();
  } catch (cause) {
    throw late ? new TimeIsUp(`did not answer within ${patience / 1000} s`) : cause;
  } finally {
    clearTimeout(timer);
  }
}

function loadPg(): typeof Pg {
  try {
    return createRequire(import.meta.url)("pg") as typeof Pg;
  } catch (cause) {
    throw new HoldfastError("missing_dependency", "postgresStore needs `npm install pg`", { cause });
  }
}
