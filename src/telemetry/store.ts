// A store whose commits are spans, and its reads too where they are a part of something.
import type { Commit, Store } from "../core/store.ts";
import { shortDigest, type Spans } from "./spans.ts";

/** What the conventions of OpenTelemetry call a store that is named by its URL. */
const systems = new Map([
  ["postgres", "postgresql"],
  ["rediss", "redis"],
  ["https", "http"],
]);

export function tracedStore(store: Store, url: string, spans: Spans): Store {
  const scheme = url.split(":", 1)[0] ?? "";
  const system = systems.get(scheme) ?? scheme;
  const kind = spans.api.SpanKind.CLIENT;

  function environmentOf({ heading }: Commit): { "holdfast.environment"?: string } {
    const environment = heading?.environment ?? spans.environment();
    return environment === undefined ? {} : { "holdfast.environment": environment };
  }

  /** Reads that belong to nothing are looks from time to time, of probes and of streams: they would drown the rest. */
  function read<T>(name: string, session: string, run: () => Promise<T>, entries: (found: T) => number): Promise<T> {
    if (!spans.isWithin()) return run();
    return spans.traced({
      name,
      kind,
      run,
      before: () => ({ "db.system.name": system, "holdfast.session": shortDigest(session) }),
      after: (found) => ({ "holdfast.entries": entries(found) }),
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
          ...environmentOf(commits[0]),
          "holdfast.commits": commits.length,
          "holdfast.entries": commits.reduce((sum, { entries }) => sum + entries.length, 0),
          "holdfast.bytes": commits.reduce((sum, commit) => sum + bytesOf(commit), 0),
        }),
        after: (answer) => ({ "holdfast.answer": answer }),
      }),
    load: (session, version) =>
      read(
        "holdfast.load",
        session,
        () => store.load(session, version),
        (found) => found?.entries.length ?? 0,
      ),
    read: (session, after, limit) =>
      read(
        "holdfast.read",
        session,
        () => store.read(session, after, limit),
        (found) => found?.length ?? 0,
      ),
    find: (session, key) =>
      read(
        "holdfast.find",
        session,
        () => store.find(session, key),
        (found) => (found ? 1 : 0),
      ),
    list: (filter) => store.list(filter),
    count: (environment) => store.count(environment),
    delete: (session, end) => store.delete(session, end),
    close: () => store.close(),
  };
}

function bytesOf({ entries, snapshot }: Commit): number {
  const written = entries.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0);
  return snapshot ? written + Buffer.byteLength(snapshot.body) : written;
}
