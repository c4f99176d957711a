// tracedStore(): records spans for commits, and for reads inside another span.
import type { Commit, Entry, Loaded, Store } from "../core/store.ts";
import { shortDigest, type Spans } from "./spans.ts";

/** OpenTelemetry's store names, by URL scheme. */
const systems = new Map([
  ["postgres", "postgresql"],
  ["rediss", "redis"],
  ["https", "http"],
]);

export function tracedStore(store: Store, url: string, spans: Spans): Store {
  const scheme = url.split(":", 1)[0] ?? "";
  const system = systems.get(scheme) ?? scheme;
  const kind = spans.api.SpanKind.CLIENT;

  function environmentAttribute({ heading }: Commit): { "holdfast.environment"?: string } {
    const environment = heading?.environment ?? spans.environment();
    return environment === undefined ? {} : { "holdfast.environment": environment };
  }

  /** Traces a read inside another span. Other reads come from periodic polling and would hide the useful spans. */
  function read<T extends Found>(name: string, session: string, run: () => Promise<T>): Promise<T> {
    if (!spans.isWithin()) return run();
    return spans.traced({
      name,
      kind,
      run,
      before: () => ({ "db.system.name": system, "holdfast.session": shortDigest(session) }),
      after: (found) => ({ "holdfast.entries": countEntries(found) }),
    });
  }

  return {
    persistent: store.persistent,
    append: (...commits) =>
      spans.traced({
        name: "holdfast.commit",
        kind,
        run: () => store.append(...commits),
        before: () => ({
          "db.system.name": system,
          "holdfast.session": shortDigest(commits[0].session),
          ...environmentAttribute(commits[0]),
          "holdfast.commits": commits.length,
          "holdfast.entries": commits.reduce((sum, { entries }) => sum + entries.length, 0),
          "holdfast.bytes": commits.reduce((sum, commit) => sum + countBytes(commit), 0),
        }),
        after: (answer) => ({ "holdfast.answer": answer }),
      }),
    load: (session, ...asked) => read("holdfast.load", session, () => store.load(session, ...asked)),
    read: (session, ...range) => read("holdfast.read", session, () => store.read(session, ...range)),
    find: (session, ...asked) => read("holdfast.find", session, () => store.find(session, ...asked)),
    list: (filter) => store.list(filter),
    count: (environment) => store.count(environment),
    delete: (session, end) => store.delete(session, end),
    close: () => store.close(),
  };
}

type Found = Loaded | Entry[] | Entry | undefined;

function countEntries(found: Found): number {
  if (found === undefined) return 0;
  if (Array.isArray(found)) return found.length;
  return "entries" in found ? found.entries.length : 1;
}

function countBytes({ entries, snapshot }: Commit): number {
  const written = entries.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0);
  return snapshot ? written + Buffer.byteLength(snapshot.body) : written;
}
