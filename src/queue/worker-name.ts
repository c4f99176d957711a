// Worker names. `queue status` reads them from the names of the workers' connections, which disappear with the workers.

export interface WorkerName {
  host: string;
  pid: number;
  /** Start time in milliseconds. */
  since: number;
  concurrency: number;
}

/**
 * Returns the name for the connection on which the worker renews its locks, because that connection is always active.
 * The connection that BullMQ names is idle while there are enough jobs.
 */
export const toConnectionName = (prefix: string, name: string): string =>
  `${prefix.replaceAll(/[^!-~]/g, "_")}:heart:${name}`;

/** Formats a name, without characters that Redis forbids in connection names. */
export function formatName({ host, pid, since, concurrency }: WorkerName): string {
  return [host.replaceAll(/[^\w.-]/g, "_"), pid, Math.floor(since / 1000), concurrency].join("/");
}

/** Parses a name; returns undefined if it does not belong to a Holdfast worker. */
export function parseName(name: string): WorkerName | undefined {
  const [, host, pid, since, concurrency] = /([\w.-]+)\/(\d+)\/(\d+)\/(\d+)$/.exec(name) ?? [];
  if (host === undefined) return undefined;
  return { host, pid: Number(pid), since: Number(since) * 1000, concurrency: Number(concurrency) };
}

export function shownName(name: string): string {
  const found = parseName(name);
  return found ? `${found.host}:${found.pid}` : name;
}
