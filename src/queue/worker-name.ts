// The name of a worker's connection: all that `queue status` tells of a worker is in it, and it is gone with the worker.

export interface WorkerName {
  host: string;
  pid: number;
  /** When it began, in milliseconds. */
  since: number;
  concurrency: number;
}

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
