// The name of a worker: all that `queue status` tells of it is in the name of its connection, and is gone with the worker.

export interface WorkerName {
  host: string;
  pid: number;
  /** When it began, in milliseconds. */
  since: number;
  concurrency: number;
}

/**
 * What Redis calls the connection that is never silent for long: a worker renews locks by it, and looks for those of others.
 * BullMQ names the one that it waits on, which is silent while there is enough to play.
 */
export const heartOf = (prefix: string, name: string): string => `${prefix.replaceAll(/[^!-~]/g, "_")}:heart:${name}`;

/** Without what Redis does not take in the name of a connection. */
export function nameOf({ host, pid, since, concurrency }: WorkerName): string {
  return [host.replaceAll(/[^\w.-]/g, "_"), pid, Math.floor(since / 1000), concurrency].join("/");
}

/** What a name says; undefined if it is no worker's of ours. */
export function parseName(name: string): WorkerName | undefined {
  const [, host, pid, since, concurrency] = /([\w.-]+)\/(\d+)\/(\d+)\/(\d+)$/.exec(name) ?? [];
  if (host === undefined) return undefined;
  return { host, pid: Number(pid), since: Number(since) * 1000, concurrency: Number(concurrency) };
}

/** For people: host and process. */
export function shownName(name: string): string {
  const found = parseName(name);
  return found ? `${found.host}:${found.pid}` : name;
}
