// Checks the answers from a service, which is not trusted.
import type { EndReason } from "../../core/event.ts";
import type { Appended, Filter, Listed, Snapshot } from "../../core/store.ts";
import type { Entry, Row } from "../front.ts";
import { eventEntry } from "../front/event-entry.ts";
import { matches } from "../front/listing.ts";
import { timeMark } from "../front/mark.ts";

/** An answer that does not match the contract. */
export class WrongAnswer extends Error {}

export function appendedOf(answer: unknown): Appended {
  const { result } = fieldsOf(answer, "an object with `result`");
  if (result === "ok" || result === "conflict" || result === "duplicate") return result;
  throw new WrongAnswer('`result` must be "ok", "conflict" or "duplicate"');
}

/** Checks that the entries start right after a version and have no gap. */
function entriesOf(value: unknown, after: number): Entry[] {
  if (!Array.isArray(value)) throw new WrongAnswer("`entries` must be a list");
  return value.map((each, at) => {
    const entry = entryOf(each, "an entry");
    if (entry.version === after + 1 + at) return entry;
    throw new WrongAnswer(`expected entry ${after + 1 + at}, got ${entry.version}`);
  });
}

export interface Log {
  snapshot?: Snapshot;
  entries: Entry[];
}

export function readOf(answer: unknown, after: number, limit: number): Log | undefined {
  const { entries } = fieldsOf(answer, "an object with `entries`");
  if (entries === null) return undefined;
  const read = entriesOf(entries, after);
  if (read.length > limit) throw new WrongAnswer(`expected at most ${limit} entries, got ${read.length}`);
  return { entries: read };
}

export function loadedOf(answer: unknown, version: number): Log | undefined {
  const fields = fieldsOf(answer, "an object with `entries`");
  if (fields["entries"] === null) return undefined;
  const snapshot = isAbsent(fields["snapshot"]) ? undefined : snapshotOf(fields["snapshot"], "`snapshot`");
  const entries = entriesOf(fields["entries"], snapshot?.version ?? 0);
  if (((entries.at(-1) ?? snapshot)?.version ?? 0) > version) {
    throw new WrongAnswer(`expected entries up to version ${version}, got a later entry`);
  }
  return snapshot === undefined ? { entries } : { snapshot, entries };
}

export function foundOf(answer: unknown): Entry | undefined {
  const { entry } = fieldsOf(answer, "an object with `entry`");
  return entry === null ? undefined : entryOf(entry, "`entry`");
}

export function pageOf(answer: unknown, filter: Filter, cursor?: string): { rows: Row[]; next: string | undefined } {
  const { sessions, next } = fieldsOf(answer, "an object with `sessions`");
  if (!Array.isArray(sessions)) throw new WrongAnswer("`sessions` must be a list");
  if (!isAbsent(next) && typeof next !== "string") throw new WrongAnswer("`next` must be a string or null");
  if (typeof next === "string" && sessions.length === 0) throw new WrongAnswer("a page with `next` must not be empty");
  if (next === cursor && cursor !== undefined) throw new WrongAnswer("`next` points to the same page again");
  return { rows: sessions.map((row) => rowOf(row, filter)), next: next ?? undefined };
}

export function countOf(answer: unknown): number {
  return wholeOf(fieldsOf(answer, "an object with `count`")["count"], 0, "`count`");
}

export function deletedOf(answer: unknown): boolean {
  const { deleted } = fieldsOf(answer, "an object with `deleted`");
  if (typeof deleted !== "boolean") throw new WrongAnswer("`deleted` must be true or false");
  return deleted;
}

export function aboutOf(answer: unknown): { format: number; persistent: boolean } {
  const { format, persistent } = fieldsOf(answer, "an object with `format` and `persistent`");
  const number = wholeOf(format, 1, "`format`");
  // A later format may have other fields, so only format 1 is checked.
  if (number === 1 && typeof persistent !== "boolean") throw new WrongAnswer("`persistent` must be true or false");
  return { format: number, persistent: persistent === true };
}

const endReasons: Record<EndReason, true> = { closed: true, idle: true, age: true, capacity: true };

function rowOf(value: unknown, filter: Filter): Row {
  const { session, version, touched, environment, opened, parent, ended } = fieldsOf(value, "a session as an object");
  const row: Listed = {
    session: textOf(session, "`session`"),
    version: wholeOf(version, 1, "`version` of a session"),
    touched: numberOf(touched, "`touched`"),
    environment: textOf(environment, "`environment`"),
    opened: numberOf(opened, "`opened`"),
  };
  if (!isAbsent(parent)) {
    const fields = fieldsOf(parent, "`parent` as an object");
    row.parent = {
      session: textOf(fields["session"], "`session` of a parent"),
      version: wholeOf(fields["version"], 0, "`version` of a parent"),
    };
  }
  if (!isAbsent(ended)) {
    if (typeof ended !== "string" || !Object.hasOwn(endReasons, ended)) {
      throw new WrongAnswer(`\`ended\` must be ${Object.keys(endReasons).join(", ")} or null`);
    }
    row.ended = ended as EndReason;
  }
  if (!matches(row, filter)) throw new WrongAnswer("a listed session does not match the filter");
  return { ...row, mark: timeMark(row.touched), place: placeText(row.session) };
}

/** Returns a session's place in the order of opening: the request for the sessions after it. */
export function placeText(session: string): string {
  return JSON.stringify({ after: session });
}

function snapshotOf(value: unknown, what: string): Snapshot {
  const { version, body } = fieldsOf(value, `${what} as an object`);
  return { version: wholeOf(version, 1, `\`version\` of ${what}`), body: textOf(body, `\`body\` of ${what}`) };
}

/** Checks an entry. A service may leave out the time and the key. */
function entryOf(value: unknown, what: string): Entry {
  const { version, body } = snapshotOf(value, what);
  const { at, key } = value as { at?: unknown; key?: unknown };
  if (isAbsent(at)) return eventEntry(version, body);
  const entry: Entry = { version, body, at: numberOf(at, `\`at\` of ${what}`) };
  if (!isAbsent(key)) entry.key = textOf(key, `\`key\` of ${what}`);
  return entry;
}

const isAbsent = (value: unknown): value is null | undefined => value === null || value === undefined;

function fieldsOf(value: unknown, wanted: string): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new WrongAnswer(`expected ${wanted}`);
}

function textOf(value: unknown, what: string): string {
  if (typeof value === "string") return value;
  throw new WrongAnswer(`${what} must be a string`);
}

function numberOf(value: unknown, what: string): number {
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw new WrongAnswer(`${what} must be a number`);
}

function wholeOf(value: unknown, least: number, what: string): number {
  if (Number.isSafeInteger(value) && (value as number) >= least) return value as number;
  throw new WrongAnswer(`${what} must be a whole number of at least ${least}`);
}
