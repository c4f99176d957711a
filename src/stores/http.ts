// The HTTP store: a service of your own keeps the logs. What it has to do is in docs/http-store.md.
import { HoldfastError } from "../core/errors.ts";
import type { Commit, Filter, Listed, Store } from "../core/store.ts";
import { assertDifferentSessions } from "../core/store.ts";
import { addressOf } from "./http/address.ts";
import * as answers from "./http/answers.ts";
import { createClient, type Question } from "./http/client.ts";

export interface HttpStoreOptions {
  /**
   * Where the service is, as in `https://example.com/store`. Its bearer token is `HOLDFAST_STORE_TOKEN`, or stands in
   * the URL: `https://TOKEN@example.com/store`.
   */
  url: string;
}

/** The version of the contract that is spoken here. */
const ourFormat = 1;
/** Pages of a listing start small, for those who only want the first. */
const [firstPage, largestPage] = [16, 512];

/**
 * A store that is a service of your own. Asks it first what it is: rejects if it cannot be reached or is no store.
 *
 * @example
 * const store = await httpStore({ url: "https://example.com/store" });
 */
export async function httpStore({ url }: HttpStoreOptions): Promise<Store> {
  const address = addressOf(url);
  const client = await createClient(address);
  let persistent: boolean;
  try {
    const about = await client.ask({ verb: "about", read: answers.aboutOf, again: true });
    if (about.format !== ourFormat) {
      const formats = `${about.format}, this Holdfast knows ${ourFormat}`;
      throw new HoldfastError("store_newer", `the HTTP store ${address.shown} speaks another format (${formats})`);
    }
    ({ persistent } = about);
  } catch (thrown) {
    await client.end();
    throw thrown;
  }

  const running = new Set<Promise<unknown>>();
  let closing: Promise<void> | undefined;

  /** Rejects, and never throws. */
  async function ask<T>(question: Question<T>): Promise<T> {
    if (closing !== undefined) throw new HoldfastError("store_closed", `the HTTP store ${address.shown} was closed`);
    const answer = client.ask(question);
    running.add(answer);
    try {
      return await answer;
    } finally {
      running.delete(answer);
    }
  }

  const reading = <T>(verb: string, body: unknown, read: (answer: unknown) => T): Promise<T> =>
    ask({ verb, body, read, again: true });
  // Never asked twice: of a commit that was made, the second try would be refused as if another had made it.
  const writing = <T>(verb: string, body: unknown, read: (answer: unknown) => T): Promise<T> =>
    ask({ verb, body, read, again: false });

  async function* listing(filter: Filter): AsyncGenerator<Listed> {
    if (filter.idleBefore !== undefined && filter.after !== undefined) {
      throw new HoldfastError("invalid_option", "`after` goes with the order of opening, not with `idleBefore`");
    }
    let cursor: string | undefined;
    for (let limit = firstPage; ; limit = Math.min(4 * limit, largestPage)) {
      const page = await reading("list", { ...filterOf(filter), limit, cursor }, (answer) => {
        const { sessions, next } = answers.pageOf(answer, filter);
        if (next !== undefined && next === cursor) throw new answers.WrongAnswer("`next` leads to the same page again");
        return { sessions, next };
      });
      yield* page.sessions;
      if (page.next === undefined) return;
      cursor = page.next;
    }
  }

  return {
    persistent,

    async append(commit, ...together) {
      const commits = [commit, ...together];
      assertDifferentSessions(commits);
      const body = { commits: commits.map(commitOf) };
      // Answered here, so that a service need not look for it. Also without asking it is refused by a closed store.
      if (closing === undefined && commits.some(hasTwins)) return "duplicate";
      return writing("append", body, answers.appendedOf);
    },

    read(session, after, limit = Infinity) {
      const from = Math.max(after, 0);
      const most = Math.max(limit, 1);
      const body = { session, after: from, limit: finite(most) };
      return reading("read", body, (answer) => answers.readOf(answer, from, most)?.slice(0, limit));
    },

    load: (session, version = Infinity) =>
      reading("load", { session, version: finite(version) }, (answer) => answers.loadedOf(answer, version)),

    find: (session, key) => reading("find", { session, key }, answers.foundOf),

    list: (filter = {}) => listing({ ...filter }),

    count: (environment) => reading("count", { environment }, answers.countOf),

    delete: (session, end) => writing("delete", { session, version: end?.version, seen: end?.seen }, answers.deletedOf),

    close() {
      closing ??= Promise.allSettled(running).then(() => client.end());
      return closing;
    },
  };
}

/** A commit as it is sent: the fields of the contract and no others. */
function commitOf({ session, version, seen, entries, heading, snapshot }: Commit): unknown {
  if (version === 0 && heading === undefined) {
    throw new HoldfastError("invalid_option", "the commit of version 0 needs a heading");
  }
  for (const { at } of entries) {
    // JSON has no way to write it.
    if (!Number.isFinite(at)) throw new HoldfastError("invalid_option", "the time of an entry must be a number");
  }
  const { environment, opened, parent, ended } = heading ?? {};
  return {
    session,
    version,
    ...(seen !== undefined && { seen }),
    entries: entries.map(({ body, at, key }) => ({ body, at, key })),
    ...(heading && { heading: { environment, opened, parent, ended } }),
    ...(snapshot && { snapshot: { version: snapshot.version, body: snapshot.body } }),
  };
}

/** Whether two entries of a commit have the same key. */
function hasTwins({ entries }: Commit): boolean {
  const keys = entries.flatMap(({ key }) => key ?? []);
  return new Set(keys).size < keys.length;
}

function filterOf({ environment, open, openedBefore, idleBefore, after }: Filter): Filter {
  return {
    ...(environment !== undefined && { environment }),
    ...(open !== undefined && { open }),
    ...(openedBefore !== undefined && { openedBefore: time(openedBefore) }),
    ...(idleBefore !== undefined && { idleBefore: time(idleBefore) }),
    ...(after !== undefined && { after }),
  };
}

/** JSON has no infinity: the end of time is the largest whole number that every language can hold in a double. */
const time = (at: number): number => Math.max(Math.min(at, Number.MAX_SAFE_INTEGER), Number.MIN_SAFE_INTEGER);
/** Absent where there is no limit. */
const finite = (value: number): number | undefined => (value === Infinity ? undefined : value);
