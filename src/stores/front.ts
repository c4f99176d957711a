// The front of every store: copies and checks input, limits time, retries, groups commits, filters lists, and closes.
import { HoldfastError } from "../core/errors.ts";
import type { Commit, Loaded, Store } from "../core/store.ts";
import { createAppend } from "./front/append.ts";
import { createAttempts } from "./front/attempts.ts";
import type { Answer, Call, Driver, Entry, Page, Range } from "./front/driver.ts";
import { createListing } from "./front/listing.ts";
import { timeMark } from "./front/mark.ts";
import { storedMark, toUnit } from "./front/unit.ts";
import { withEscapes } from "./front/utf8-escape.ts";

export type * from "./front/driver.ts";

/** Maximum size of one log page in bytes, unless a single entry is larger. */
const pageBytes = 4 * 1024 * 1024;

/**
 * Creates a store on a driver. The front has the code that all stores share, so a driver implements only its own
 * operations.
 *
 * @example
 * const store = createStore(myDriver());
 */
export function createStore(given: Driver): Store {
  const driver = given.text === "utf8" ? withEscapes(given) : given;
  const { name } = driver;
  const attempts = createAttempts(driver);
  const { ask, limitFor } = attempts;
  const { append, remove } = createAppend(driver, attempts, { begin, end, counted });
  let running = 0;
  let idle: (() => void) | undefined;
  let closing: Promise<void> | undefined;

  function assertOpen(): void {
    if (closing !== undefined) throw new HoldfastError("store_closed", `${name} was closed`);
  }

  function begin(): void {
    running++;
  }

  function end(): void {
    if (--running === 0) idle?.();
  }

  async function counted<T>(verb: Promise<T>): Promise<T> {
    begin();
    try {
      return await verb;
    } finally {
      end();
    }
  }

  /** Runs a read. All its requests share one time limit. */
  async function reading<T>(run: (call: Call) => Answer<T>, waited?: number): Promise<T> {
    assertOpen();
    begin();
    try {
      return await run({ until: limitFor(0, waited) });
    } finally {
      end();
    }
  }

  const readPage = (session: string, range: Partial<Range>, call: Call): Promise<Page | undefined> =>
    ask("reads", call, (call) => driver.read(session, { ...wholeLog, ...range }, call));

  /** Reads a log page by page. Starts over if a different log has replaced it in the meantime. */
  async function readLog(session: string, range: Partial<Range>, call: Call): Promise<Page | undefined> {
    const { limit = Infinity, upTo = Infinity } = range;
    again: for (;;) {
      const first = await readPage(session, range, call);
      if (!first) return undefined;
      const { entries } = first;
      const end = Math.min(first.end.version, upTo);
      for (;;) {
        const after = entries.at(-1)?.version ?? first.snapshot?.version ?? range.after ?? 0;
        if (after >= end || entries.length >= limit) return first;
        const next = await readPage(session, { after, upTo: end, limit: limit - entries.length }, call);
        if (next?.place !== first.place) continue again;
        if (next.entries.length === 0) throw cutShort(session, after, next.end.version);
        for (const entry of next.entries) entries.push(entry);
      }
    }
  }

  function cutShort(session: string, after: number, version: number): HoldfastError {
    const log = `the log of session ${JSON.stringify(session)}`;
    const message = `${name} has lost part of ${log}: the entries after ${after} are missing, although the log has ${version} entries`;
    return new HoldfastError("store_corrupt", message);
  }

  async function findIn(session: string, key: string, call: Call): Promise<Entry | undefined> {
    const { find } = driver;
    if (find) return ask("reads", call, (call) => find(session, key, call));
    return (await readLog(session, {}, call))?.entries.find((entry) => entry.key === key);
  }

  async function placeOf(session: string, call: Call): Promise<string | undefined> {
    const { place } = driver;
    if (place) return ask("reads", call, (call) => place(session, call));
    return (await readPage(session, { limit: 0 }, call))?.place;
  }

  const listing = createListing({
    driver,
    assertOpen,
    page: (listing) => reading((call) => ask("reads", call, (call) => driver.list(listing, call))),
    placeOf: (session) => reading((call) => placeOf(session, call)),
  });

  async function countIn(environment: string, call: Call): Promise<number> {
    const { count } = driver;
    if (count) return ask("reads", call, (call) => count(environment, call));
    let open = 0;
    for await (const _ of listing({ environment, open: true })) open++;
    return open;
  }

  return {
    persistent: driver.persistent,

    append(...commits: Commit[]) {
      try {
        assertOpen();
        const unit = toUnit(commits, driver);
        return unit === "duplicate" ? Promise.resolve(unit) : append(unit, commits[0]!.waited);
      } catch (thrown) {
        return Promise.reject(thrown as Error);
      }
    },

    read: (session, after, limit = Infinity, bytes) =>
      reading(async (call) => {
        const range = { after: Math.max(after, 0), limit: Math.max(limit, 0) };
        if (bytes === undefined) return (await readLog(session, range, call))?.entries;
        const page = await readPage(session, { ...range, bytes }, call);
        return page && cutAfter(page.entries, bytes);
      }),

    load: (session, upTo = Infinity, after = 0, waited = 0) =>
      reading(async (call) => {
        // A time mark does not identify earlier entries, so the caller's last entry is read again to compare it.
        const isAgain = after > 0 && driver.marks === "time";
        const range = { after: isAgain ? after - 1 : after, upTo, snapshot: after === 0 };
        const page = await readLog(session, range, call);
        if (!page) return undefined;
        const { end, snapshot, entries } = page;
        const loaded: Loaded = { version: end.version, mark: end.mark, entries };
        const known = isAgain ? entries.shift() : undefined;
        if (known) loaded.seen = timeMark(known.at);
        if (snapshot) loaded.snapshot = snapshot;
        return loaded;
      }, waited),

    find: (session, key, waited) => reading((call) => findIn(session, key, call), waited),

    list: (filter = {}) => listing({ ...filter }),

    count: (environment) => reading((call) => countIn(environment, call)),

    async delete(session, end) {
      assertOpen();
      return remove(session, end && { version: end.version, mark: storedMark(end.seen ?? "", driver) });
    },

    close() {
      closing ??= (running === 0 ? Promise.resolve() : new Promise<void>((resolve) => (idle = resolve))).then(() =>
        driver.close?.(),
      );
      return closing;
    },
  };
}

/** Returns the first entries, up to the entry that reaches this number of bytes. */
function cutAfter(entries: Entry[], bytes: number): Entry[] {
  let left = bytes;
  const last = entries.findIndex(({ body }) => (left -= body.length) <= 0);
  return last < 0 ? entries : entries.slice(0, last + 1);
}

const wholeLog: Range = { after: 0, upTo: Infinity, limit: Infinity, bytes: pageBytes, snapshot: false };
