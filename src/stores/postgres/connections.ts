// Connections to Postgres: opened on demand, limited in number, dropped after a timeout, replaced after a failure.
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { Socket } from "node:net";
import type * as Pg from "pg";
import { HoldfastError, isHoldfastError } from "../../core/errors.ts";
import type { Call } from "../front.ts";
import { isReadOnly, isRefusal, isStrayed, TimeIsUp, Unconnected } from "./failures.ts";
import { prepareSchema } from "./schema.ts";

export interface Target {
  /** The URL for pg, without our own parameters. */
  url: string;
  /** The URL for messages. */
  name: string;
  schema: string;
  connections: number;
}

/** A statement. If it has a name, it is prepared on the server, unless a pooler prevents that. */
export interface Statement {
  text: string;
  name?: string;
}

/** Names a statement by a digest of its text, so that versions of Holdfast on one server do not collide. */
export function keptReady(text: string): Statement {
  return { text, name: `holdfast_${createHash("sha256").update(text).digest("hex").slice(0, 24)}` };
}

interface Connection {
  client: Pg.Client;
  socket: Socket;
  broken: boolean;
}

/** Runs a statement once. */
export type Run = <Row>(wanted: Statement, values: unknown[], call: Call) => Promise<Row[]>;

export function createConnections({ url, name, schema, connections }: Target) {
  const { Client } = loadPg();
  const all = new Set<Connection>();
  const idle: Connection[] = [];
  // Each permit represents a connection, open or opening.
  let permits = connections;
  const waiting: { call: Call; next(): void }[] = [];
  let prepared = false;
  // Whether to prepare statements. Turned off after the first failure, because a pooler may use another server
  // connection for each transaction.
  let keepsReady = true;

  async function connect(call: Call): Promise<Connection> {
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
      await inTime(connection, call, () => client.connect());
      if (!prepared) {
        const query = (text: string) => inTime(connection, call, () => client.query<{ version: unknown }>(text));
        await prepareSchema(async (text) => (await query(text)).rows, schema, name);
        prepared = true;
      }
      return connection;
    } catch (cause) {
      lose();
      socket.destroy();
      if (isHoldfastError(cause) || cause instanceof TimeIsUp) throw cause;
      // Passes the reason to other callers that wait for a connection.
      for (const { call } of waiting) call.reason = new Unconnected("", { cause });
      throw new Unconnected("there is no connection", { cause });
    }
  }

  /** Waits for a permit. A caller that is woken too late passes the permit on. */
  async function takePermit(call: Call): Promise<void> {
    if (permits > 0) {
      permits--;
      return;
    }
    await new Promise<void>((resolve) => waiting.push({ call, next: resolve }));
    if (performance.now() < call.until) return;
    givePermit();
    throw new TimeIsUp("had no free connection within the time limit", { cause: call.reason });
  }

  function givePermit(): void {
    const next = waiting.shift();
    if (next) next.next();
    else permits++;
  }

  /** Runs a statement once. After a failure, the connection is usable only if the server refused the statement. */
  async function attempt<Row>(connection: Connection, wanted: Statement, values: unknown[], call: Call) {
    const { client, socket } = connection;
    const query = keepsReady ? { ...wanted, values } : { text: wanted.text, values };
    try {
      return (await inTime(connection, call, () => client.query<Row & object>(query))).rows as Row[];
    } catch (cause) {
      if (isStrayed(cause)) keepsReady = false;
      if (!isRefusal(cause) || isReadOnly(cause)) {
        connection.broken = true;
        all.delete(connection);
        socket.destroy();
      }
      throw cause;
    }
  }

  const run: Run = async <Row>(wanted: Statement, values: unknown[], call: Call) => {
    await takePermit(call);
    let connection: Connection | undefined;
    try {
      connection = idle.pop() ?? (await connect(call));
      return await attempt<Row>(connection, wanted, values, call);
    } finally {
      if (connection !== undefined && !connection.broken) idle.push(connection);
      givePermit();
    }
  };

  return {
    run,
    /** Ends all connections, including connections in use. */
    async end(): Promise<void> {
      await Promise.all([...all].map(farewell));
    },
  };
}

/** Ends a connection, within 300 ms, because the server may not answer. */
async function farewell({ client, socket }: Connection): Promise<void> {
  if (socket.destroyed) return;
  const closed = new Promise((resolve) => socket.once("close", resolve));
  const timer = setTimeout(() => socket.destroy(), 300);
  client.end().catch(() => {});
  await closed;
  clearTimeout(timer);
}

/** Waits for an answer until the deadline, then drops the connection, because a paused server never answers. */
async function inTime<T>({ socket }: Connection, call: Call, work: () => Promise<T>): Promise<T> {
  let late = false;
  const timer = setTimeout(
    () => {
      late = true;
      socket.destroy();
    },
    Math.max(call.until - performance.now(), 0),
  );
  try {
    return await work();
  } catch (cause) {
    throw late ? new TimeIsUp("did not answer within its time limit", { cause: call.reason }) : cause;
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
