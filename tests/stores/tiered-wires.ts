// Stores behind wires: a test decides when each request and answer arrives: late, never, or after its process died.
import type { Listed, Store } from "../../src/core/store.ts";

/** A process: once dead, it sends and receives nothing. */
export interface Process {
  isAlive: boolean;
}

interface Request {
  process: Process;
  run(): Promise<unknown>;
  resolve(result: never): void;
  reject(reason: Error): void;
  /** Its result, once it was applied. */
  done?: { result: unknown };
  /** The caller gave up, but it may still arrive. */
  isGivenUp?: boolean;
}

/** The next fate of a request; most succeed. */
export type Fate = "answered" | "carried out" | "given up" | "lost";

export function createWires() {
  const pending: Request[] = [];

  function wired(inner: Store, process: Process): Store {
    const ask = <T>(run: () => Promise<T>): Promise<T> =>
      new Promise<T>((resolve, reject) => {
        if (process.isAlive) pending.push({ process, run, resolve, reject });
      });
    return {
      ...inner,
      append: (...commits) => ask(() => inner.append(...commits)),
      read: (...given) => ask(() => inner.read(...given)),
      load: (...given) => ask(() => inner.load(...given)),
      find: (...given) => ask(() => inner.find(...given)),
      count: (...given) => ask(() => inner.count(...given)),
      delete: (...given) => ask(() => inner.delete(...given)),
      async *list(filter) {
        yield* await ask(async () => {
          const rows: Listed[] = [];
          for await (const row of inner.list(filter)) rows.push(row);
          return rows;
        });
      },
      close: async () => undefined,
    };
  }

  /** Applies one fate to one request. Returns false if there is none. */
  async function step(pick: number, fate: Fate): Promise<boolean> {
    const at = pick % pending.length;
    const request = pending[at];
    if (!request) return false;
    const isHeard = request.process.isAlive && !request.isGivenUp;
    const isOver = fate === "answered" || fate === "lost" || request.done !== undefined || !isHeard;
    if (fate !== "lost" && fate !== "given up") request.done ??= { result: await request.run() };
    if (isHeard && fate === "given up") {
      request.isGivenUp = true;
      request.reject(new Error("busy"));
      // An applied request is finished.
      if (request.done) pending.splice(at, 1);
      return true;
    }
    if (!isOver) return true;
    pending.splice(at, 1);
    if (isHeard && fate === "lost") request.reject(new Error("busy"));
    else if (isHeard) request.resolve(request.done!.result as never);
    return true;
  }

  /** Whether an abandoned request may still arrive. */
  function haunts(process: Process): boolean {
    return pending.some((each) => each.process === process && (each.isGivenUp || !process.isAlive));
  }

  return { wired, step, haunts };
}
