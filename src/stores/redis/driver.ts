// The Redis store's driver: its operations call scripts.
import type { Answer, Call, Driver, Entry, Page } from "../front.ts";
import { eventEntry } from "../front/event-entry.ts";
import { keyField, prepare, readMark, type Argument } from "./commits.ts";
import type { Connection } from "./connection.ts";
import { faultOf } from "./failures.ts";
import { createIntents } from "./two-phase-commit.ts";
import { createLister, placeText } from "./listing.ts";
import type { ScriptName } from "./scripts.ts";

/** The answer from the script `read`. */
type Read = [
  intent: string | null,
  version: string | null,
  place: string,
  touched: string,
  mark: string | null,
  entries: string[],
  snapshot: string | null,
  state: string,
];

/** Creates a driver on a connection. Closing the driver closes the connection. */
export function redisDriver(connection: Connection): Driver {
  const { address, start, bucketCount, bucketOf, run } = connection;
  const { append, appendOne, settle } = createIntents(connection);

  /** Reads a session again until it has no unfinished intent. The answer starts with the intent. */
  async function ask<T extends [string | null, ...unknown[]]>(
    script: ScriptName,
    session: string,
    args: Argument[],
    call: Call,
  ): Promise<T> {
    await start(call);
    for (;;) {
      const answer = (await run(script, bucketOf(session), [session, ...args], call)) as T;
      const [intent] = answer;
      if (intent === null || !(await settle(session, intent, "reader", call))) return answer;
    }
  }

  async function countIn(environment: string, bucket: number, call: Call): Promise<number> {
    for (;;) {
      const answer = await run("count", bucket, [environment], call);
      const [open, more, crossing] = answer as [number, number, string[]];
      const settled = await Promise.all(crossing.map((session) => isChanged(session, call)));
      if (more === 0 && !settled.includes(true)) return open;
    }
  }

  /** Returns whether a session's intent is gone, or was finished by this call. */
  async function isChanged(session: string, call: Call): Promise<boolean> {
    const [intent] = (await run("find", bucketOf(session), [session, ""], call)) as [string | null];
    return intent === null || settle(session, intent, "reader", call);
  }

  return {
    name: `the Redis store ${address.shown}`,
    persistent: true,
    together: true,
    text: "utf8",
    idle: true,
    fault: faultOf,

    async append([unit], call) {
      const starting = start(call);
      if (starting) await starting;
      const [first] = unit!;
      return [await (unit!.length === 1 ? appendOne(prepare(first), call) : append(unit!.map(prepare), call))];
    },

    async read(session, { after, upTo, limit, bytes, snapshot }, call) {
      const bounds = [after, upTo, limit, bytes].map((bound) => Math.min(bound, Number.MAX_SAFE_INTEGER));
      const answer = await ask<Read>("read", session, [...bounds, snapshot ? 1 : 0], call);
      const [, version, place, touched, mark, found, start, state] = answer;
      if (version === null) return undefined;
      const first = Number(start ?? after) + 1;
      const page: Page = {
        end: { version: Number(version), mark: readMark(version, touched, mark) },
        place: placeText(place, bucketOf(session), session),
        entries: found.map((text, index) => toEntry(first + index, text)),
      };
      if (start !== null) page.snapshot = { version: Number(start), body: state };
      return page;
    },

    async find(session, key, call) {
      type Found = [intent: string | null, version: string | null, entry: string | undefined];
      const [, version, text] = await ask<Found>("find", session, [keyField(key)], call);
      if (version === null || text === undefined) return undefined;
      // A retry is answered with this entry. So replicas must have the entry, even if its writer got no confirmation.
      if (address.wait > 0) await run("mark", bucketOf(session), [], call);
      return toEntry(Number(version), text);
    },

    list: createLister(connection, settle),

    async count(environment, call) {
      await start(call);
      const buckets = Array.from({ length: bucketCount() }, (_, bucket) => countIn(environment, bucket, call));
      return (await Promise.all(buckets)).reduce((sum, open) => sum + open, 0);
    },

    async delete(session, end, call) {
      await start(call);
      const args = [session, end?.version ?? "", end?.mark ?? ""];
      for (;;) {
        const answer = await run("delete", bucketOf(session), args, call);
        if (typeof answer === "number") return answer === 1;
        await settle(session, answer as string, "writer", call);
      }
    },

    close: (): Answer<void> => connection.close(),
  };
}

/** Parses an entry: a prefix with the time and `=key`, a separator, and the body. Version 0.1 wrote no prefix. */
function toEntry(version: number, text: string): Entry {
  const sign = text.indexOf("\u0001 ");
  const body = text.slice(sign + 2);
  if (sign === 0) return eventEntry(version, body);
  const [, time, key] = /^([^=]*)(?:=(.*))?$/s.exec(text.slice(0, sign))!;
  const entry: Entry = { version, body, at: Number(time) };
  if (key !== undefined) entry.key = key;
  return entry;
}
