// createMemoryLimit(): removes logs of ended requests from a store in memory, which would grow with every request.
import type { Store } from "../../core/store.ts";
import { logName } from "./log.ts";

/** Above this number, ended requests are removed once clients have read them completely. */
const mostRead = 8;
/** Maximum number of ended requests. Above it, the oldest are removed, even if no client has read them. */
const most = 64;

interface Known {
  readers: number;
  isRead: boolean;
  isEnded: boolean;
}

/** `isActive`: returns whether this process runs the request. */
export function createMemoryLimit(store: Store, environment: string, isActive: (request: string) => boolean) {
  /** Known requests. Ended requests are in the order in which they ended. */
  const requests = new Map<string, Known>();

  function knownOf(request: string): Known {
    const known = requests.get(request) ?? { readers: 0, isRead: false, isEnded: false };
    requests.set(request, known);
    return known;
  }

  async function trim(): Promise<void> {
    for (const [request, { isEnded, readers }] of requests) {
      if (!isEnded && readers === 0 && !isActive(request)) requests.delete(request);
    }
    const ended = [...requests].filter(([, { isEnded }]) => isEnded);
    const isUnused = ([, { isRead, readers }]: [string, Known]): boolean => isRead && readers === 0;
    const surplus = Math.max(0, ended.length - mostRead);
    const unused = new Set(ended.filter(isUnused).slice(0, surplus));
    const left = ended.filter((one) => !unused.has(one));
    const oldest = left.slice(0, Math.max(0, left.length - most));
    for (const [request] of [...unused, ...oldest]) {
      requests.delete(request);
      // Fails only if the store is closed.
      await store.delete(logName(environment, request)).catch(() => undefined);
    }
  }

  const isNeeded = !store.persistent;
  return {
    opened(request: string): void {
      if (isNeeded) knownOf(request).readers++;
    },
    /** `isRead`: the reader has received the last line. */
    async left(request: string, isRead: boolean): Promise<void> {
      const known = requests.get(request);
      if (!known) return;
      known.readers--;
      known.isRead ||= isRead;
      await trim();
    },
    /** Called after this process has written the last line. */
    async ended(request: string): Promise<void> {
      if (!isNeeded) return;
      const known = knownOf(request);
      known.isEnded = true;
      requests.delete(request);
      requests.set(request, known);
      await trim();
    },
    deleted: (request: string): void => void requests.delete(request),
  };
}

export type MemoryLimit = ReturnType<typeof createMemoryLimit>;
