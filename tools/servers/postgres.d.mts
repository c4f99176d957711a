// The types of postgres.mjs.

export interface RunningServer {
  readonly url: string;
  readonly port: number;
  /** That of its first process; another one after `restart`. */
  readonly pid: number;
  stop(): Promise<void>;
  kill(): Promise<void>;
  pause(): void;
  resume(): void;
  restart(): Promise<void>;
}

interface ServerOptions {
  /** Lines of its configuration. */
  settings?: Record<string, string | number>;
}

export function startPostgres(options?: ServerOptions): Promise<RunningServer>;
export function startPgBouncer(postgresUrl: string, options?: ServerOptions): Promise<RunningServer>;
export function dropSchema(url: string, schema: string): Promise<void>;
export function ask<Row = Record<string, unknown>>(url: string, sql: string): Promise<Row[]>;
