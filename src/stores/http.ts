// The HTTP store: your own service stores the logs. docs/http-store.md is its contract.
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { Filter, Store } from "../core/store.ts";
import { refuseUnknown } from "../core/suggest.ts";
import { createStore, type Driver, type Write } from "./front.ts";
import { createAttempts } from "./front/attempts.ts";
import { timeMark, timeOfMark } from "./front/mark.ts";
import { addressOf } from "./http/address.ts";
import * as answers from "./http/answers.ts";
import { createClient, faultOf, type Client } from "./http/client.ts";

export interface HttpStoreOptions {
  /**
   * The URL of the service, as in `https://example.com/store`. The bearer token is in `HOLDFAST_STORE_TOKEN`, or in the
   * URL: `https://TOKEN@example.com/store`.
   */
  url: string;
}

/** The version of the contract that this client uses. */
const ourFormat = 1;
/** Requests are expensive: each asks for this many times more sessions than needed, up to this maximum. */
const [pageFactor, largestPage] = [4, 512];

/**
 * Opens a store on your own service. Requests its format first, and rejects if it is not a store or is unreachable.
 *
 * @example
 * const store = await httpStore({ url: "https://example.com/store" });
 */
export async function httpStore(options: HttpStoreOptions): Promise<Store> {
  const { url } = options;
  refuseUnknown("httpStore", options, { url }, invalidOption);
  const address = addressOf(url);
  const name = `the HTTP store ${address.shown}`;
  const client = await createClient(address);
  try {
    const { ask, limitFor } = createAttempts({ name, fault: faultOf });
    const about = await ask("reads", { until: limitFor() }, (call) =>
      client.ask("about", undefined, answers.aboutOf, call),
    );
    if (about.format !== ourFormat) {
      const formats = `${about.format}; this version of Holdfast supports ${ourFormat}`;
      throw new HoldfastError("store_newer", `${name} uses an unsupported format (${formats})`);
    }
    return createStore(httpDriver(client, name, about.persistent));
  } catch (thrown) {
    await client.close();
    throw thrown;
  }
}

function httpDriver({ ask, isAsking, close }: Client, name: string, persistent: boolean): Driver {
  return {
    name,
    persistent,
    together: true,
    text: "any",
    marks: "time",
    idle: true,
    fault: faultOf,
    // A session has one commit in flight, because requests on several connections may arrive in any order.
    groups: { of: "session", commits: 1 },
    // The client limits a request's time, and allows more time for large answers.
    overtime: isAsking,

    append: async ([unit], call) => [await ask("append", { commits: unit!.map(commitOf) }, answers.appendedOf, call)],

    async read(session, { after, upTo, limit, snapshot }, call) {
      const readAfter = (start: number, most: number): Promise<answers.Log | undefined> => {
        const body = { session, after: start, limit: finite(most) };
        return ask("read", body, (answer) => answers.readOf(answer, start, most), call);
      };
      const log = await (snapshot
        ? ask("load", { session, version: finite(upTo) }, (answer) => answers.loadedOf(answer, upTo), call)
        : readAfter(after, Math.max(Math.min(limit, upTo - after), 1)));
      if (log === undefined) return undefined;
      const { entries } = log;
      const last = entries.at(-1) ?? (log.snapshot && (await readAfter(log.snapshot.version - 1, 1))?.entries[0]);
      // The last entry is the requested end of the log, because an answer is never cut short.
      const end = { version: last?.version ?? 0, mark: last ? timeMark(last.at) : "" };
      return { ...log, end, place: answers.placeText(session), entries: limit > 0 ? entries : [] };
    },

    find: (session, key, call) => ask("find", { session, key }, answers.foundOf, call),

    // Needs no request. A listing after a missing session is refused by the service.
    place: (session) => answers.placeText(session),

    async list(listing, call) {
      const { after, limit } = listing;
      const from = (after === undefined ? {} : JSON.parse(after)) as { after?: string; cursor?: string };
      const most = Math.min(pageFactor * limit, largestPage);
      const body = { ...filterOf(listing), ...from, limit: most };
      const { rows, next } = await ask("list", body, (answer) => answers.pageOf(answer, listing, from.cursor), call);
      return next === undefined ? { rows } : { rows, next: JSON.stringify({ ...from, cursor: next }) };
    },

    count: (environment, call) => ask("count", { environment }, answers.countOf, call),

    delete(session, end, call) {
      const body = { session, version: end?.version, seen: end && timeOfMark(end.mark) };
      return ask("delete", body, answers.deletedOf, call);
    },

    close,
  };
}

/** Returns a commit with the fields of the contract. */
function commitOf({ session, seen, entries, heading, snapshot }: Write): unknown {
  return { session, version: seen.version, seen: timeOfMark(seen.mark), entries, heading, snapshot };
}

/** Returns a filter with the fields of the contract. Undefined fields are not sent. */
function filterOf({ environment, open, openedBefore, idleBefore }: Filter): object {
  return {
    environment,
    open,
    openedBefore: openedBefore === undefined ? undefined : time(openedBefore),
    idleBefore: idleBefore === undefined ? undefined : time(idleBefore),
  };
}

/** Limits a time to safe integers, because JSON has no infinity. */
const time = (at: number): number => Math.max(Math.min(at, Number.MAX_SAFE_INTEGER), Number.MIN_SAFE_INTEGER);
/** Returns undefined for infinity, so that the limit is not sent. */
const finite = (value: number): number | undefined => (value === Infinity ? undefined : value);
