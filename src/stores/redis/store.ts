// The verbs of the Redis store, on a connection.
import type { Entry, Filter, Listed, Store } from "../../core/store.ts";
import { assertDifferentSessions } from "../../core/store.ts";
import { assertHeading, bucketKey, bucketOf, hasTwins, keyOf, prepare } from "./commits.ts";
import type { Connection } from "./connection.ts";
import { patience } from "./deadlines.ts";
import { closed } from "./failures.ts";
import { createIntents } from "./intents.ts";
import { listingOf, type Access } from "./listing.ts";
import { fromText, toText } from "../front/utf8-escape.ts";

type Log = [version: string | null, opened: string | null, intent: string | null, bodies: string[]];

/** A store on a connection, which it closes. */
export function storeOn(connection: Connection): Store {
  const { address, call } = connection;
  const { append, settle } = createIntents(connection);
  /** Verbs under way. */
  let running = 0;
  let idle: (() => void) | undefined;
  let closing: Promise<void> | undefined;

  function assertOpen(): void {
    if (closing !== undefined) throw closed(address.shown);
  }

  /** Runs what `close` waits for. */
  async function counted<T>(run: () => Promise<T>): Promise<T> {
    assertOpen();
    running++;
    try {
      return await run();
    } finally {
      if (--running === 0) idle?.();
    }
  }

  /** Runs a verb, which has until then. */
  function verb<T>(run: (buckets: number, until: number) => Promise<T>): Promise<T> {
    return counted(async () => {
      const until = performance.now() + patience;
      const buckets = connection.buckets(until);
      return run(typeof buckets === "number" ? buckets : await buckets, until);
    });
  }

  /** Asks about a session until no commit to several sessions is half-way through it. */
  async function ask<T>(
    script: "read" | "load" | "find",
    [session, ...args]: [string, ...(string | number)[]],
    intentIn: (answer: T) => string | null,
    [buckets, until]: [number, number],
  ): Promise<T> {
    const key = bucketKey(address.prefix, bucketOf(session, buckets));
    for (;;) {
      const answer = (await call(script, key, [session, ...args], until, "reads")) as T;
      const intent = intentIn(answer);
      if (intent === null || !(await settle(session, intent, buckets, until, "reader"))) return answer;
    }
  }

  /** The rest of a log that did not fit into one answer. Undefined if it is another log by now. */
  async function rest(
    session: string,
    [opened, start, end]: [opened: string | null, start: number, end: number],
    scope: [number, number],
  ): Promise<Entry[] | undefined> {
    const entries: Entry[] = [];
    for (let from = start; from < end; from = start + entries.length) {
      const [version, same, , bodies] = await ask<Log>("read", [session, from, end - from], ([, , i]) => i, scope);
      if (version === null || same !== opened || bodies.length === 0) return undefined;
      entries.push(...numbered(bodies, from));
    }
    return entries;
  }

  return {
    persistent: true,

    async append(commit, ...together) {
      assertOpen();
      const commits = [commit, ...together];
      if (together.length > 0) assertDifferentSessions(commits);
      for (const each of commits) assertHeading(each);
      if (commits.some(hasTwins)) return "duplicate";
      // Copied at once, before anything is waited for. In which buckets they are is known later.
      const copies = commits.map((each) => prepare(each));
      return verb((buckets, until) => append(copies, buckets, until));
    },

    read: (id, after, limit = Number.MAX_SAFE_INTEGER) =>
      verb(async (...scope) => {
        const session = toText(id);
        for (;;) {
          const log = await ask<Log>("read", [session, after, limit], ([, , intent]) => intent, scope);
          const [version, opened, , bodies] = log;
          if (version === null) return undefined;
          const end = Math.min(Number(version), after + limit);
          const more = await rest(session, [opened, after + bodies.length, end], scope);
          if (more) return [...numbered(bodies, after), ...more];
        }
      }),

    load: (id, version = Number.MAX_SAFE_INTEGER) =>
      verb(async (...scope) => {
        const session = toText(id);
        for (;;) {
          const answer = await ask<[...Log, string | null, string | null]>(
            "load",
            [session, version],
            ([, , intent]) => intent,
            scope,
          );
          const [length, opened, , bodies, at, body] = answer;
          if (length === null) return undefined;
          const start = Number(at ?? 0);
          const end = Math.min(Number(length), version);
          const more = await rest(session, [opened, start + bodies.length, end], scope);
          if (!more) continue;
          const entries = [...numbered(bodies, start), ...more];
          return at === null ? { entries } : { snapshot: { version: start, body: fromText(body!) }, entries };
        }
      }),

    find: (id, key) =>
      verb(async (...scope) => {
        const session = toText(id);
        const args: [string, string] = [session, keyOf(key)];
        const [version, body] = await ask<(string | null)[]>("find", args, (answer) => answer[2] ?? null, scope);
        if (!version || !body) return undefined;
        // A repeat is answered with it: not before the replicas have it that its writer may be waiting for, or waited for in vain.
        const [buckets, until] = scope;
        const bucket = bucketKey(address.prefix, bucketOf(session, buckets));
        if (address.wait > 0) await call("mark", bucket, [], until, "writes");
        return { version: Number(version), body: fromText(body) };
      }),

    list(filter = {}) {
      return listing({ ...filter });
    },

    count: (environment) =>
      verb(async (buckets, until) => {
        const name = toText(environment);
        const countIn = async (bucket: number): Promise<number> => {
          for (;;) {
            const answer = await call("count", bucketKey(address.prefix, bucket), [name], until, "reads");
            const [open, more, crossing] = answer as [number, number, string[]];
            const settled = await Promise.all(crossing.map((session) => isChanged(session, buckets, until)));
            if (more === 0 && !settled.includes(true)) return open;
          }
        };
        const counts = await Promise.all(Array.from({ length: buckets }, (_, bucket) => countIn(bucket)));
        return counts.reduce((sum, open) => sum + open, 0);
      }),

    delete: (id, end) =>
      verb(async (buckets, until) => {
        const session = toText(id);
        const only = [end?.version ?? "", end?.seen ?? ""];
        const key = bucketKey(address.prefix, bucketOf(session, buckets));
        for (;;) {
          const answer = await call("delete", key, [session, ...only], until, "writes");
          if (typeof answer === "number") return answer === 1;
          await settle(session, answer as string, buckets, until, "writer");
        }
      }),

    close() {
      closing ??= (running === 0 ? Promise.resolve() : new Promise<void>((resolve) => (idle = resolve))).then(() =>
        connection.disconnect(),
      );
      return closing;
    },
  };

  /** Whether a commit to several sessions, this one among them, was just finished. */
  async function isChanged(session: string, buckets: number, until: number): Promise<boolean> {
    const key = bucketKey(address.prefix, bucketOf(session, buckets));
    const [, , intent] = (await call("read", key, [session, 0, 0], until, "reads")) as Log;
    return intent === null || (await settle(session, intent, buckets, until, "reader"));
  }

  async function* listing(filter: Filter): AsyncGenerator<Listed> {
    const buckets = await verb(async (buckets) => buckets);
    const access: Access = {
      address,
      call: (...args) => counted(() => call(...args)),
      settle: (...args) => counted(() => settle(...args)),
    };
    yield* listingOf(access, buckets, assertOpen)(filter);
  }
}

function numbered(bodies: string[], after: number): Entry[] {
  return bodies.map((body, index) => ({ version: after + index + 1, body: fromText(body) }));
}
