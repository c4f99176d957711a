// Prepares commits for drivers: copies them, because callers may change the originals, checks them, and adds sizes.
import { invalidOption } from "../../core/errors.ts";
import type { Commit, Heading, NewEntry } from "../../core/store.ts";
import type { Driver, Unit, Write } from "./driver.ts";
import { hashOfMark, isTime, markAfter, timeMark, timeOfMark } from "./mark.ts";
import { escapeWrite } from "./utf8-escape.ts";

/** Copies the commits of one append. Returns "duplicate" if two entries of a commit have the same key. */
export function toUnit(commits: readonly Commit[], driver: Driver): Unit | "duplicate" {
  const { name, together, text } = driver;
  if (commits.length === 1) {
    const write = toWrite(commits[0]!, driver);
    if (hasTwins(write)) return "duplicate";
    if (text === "utf8") escapeWrite(write);
    return [write];
  }
  const unit = commits.map((commit) => toWrite(commit, driver));
  if (!together)
    throw invalidOption(`${name} cannot commit to several sessions at once; append to one session at a time`);
  assertDifferentSessions(unit);
  if (unit.some(hasTwins)) return "duplicate";
  if (text === "utf8") unit.forEach(escapeWrite);
  return unit as unknown as Unit;
}

/** Refuses to append two commits for the same session together. */
export function assertDifferentSessions(commits: readonly { session: string }[]): void {
  if (new Set(commits.map(({ session }) => session)).size === commits.length) return;
  throw invalidOption("commits that are appended together must be for different sessions");
}

/** Refuses to open a log without a heading. */
export function assertHeading({ version, heading }: Commit): void {
  if (version === 0 && heading === undefined) throw invalidOption("a commit at version 0 needs a heading");
}

function toWrite(commit: Commit, driver: Driver): Write {
  assertHeading(commit);
  const { session, version, seen, mark, entries: given, heading, snapshot } = commit;
  const entries = (given.length === 1 ? [copyEntry(given[0])] : given.map(copyEntry)) as [NewEntry, ...NewEntry[]];
  const write: Write = {
    session,
    seen: { version, mark: version === 0 || seen === undefined ? "" : storedMark(seen, driver) },
    entries,
    mark: nextMark(version === 0 ? "" : seen, mark, entries, driver),
  };
  if (heading) write.heading = copyHeading(heading);
  if (snapshot) write.snapshot = { version: snapshot.version, body: snapshot.body };
  return write;
}

/** Returns a log's mark after these entries. If the mark before the entries is unknown, the result has no hash. */
function nextMark(
  seen: string | undefined,
  mark: string | undefined,
  entries: readonly NewEntry[],
  { marks }: Driver,
): string {
  if (marks === "time" && mark !== undefined && isTime(mark)) return mark;
  const isTimed = marks === "time" || (mark ?? seen) === undefined;
  const hash = isTimed ? undefined : hashOfMark(mark ?? markAfter(seen!, entries));
  return hash ?? timeMark(entries[entries.length - 1]!.at);
}

/** Returns the part of a mark that the driver stores: its hash or its time. */
export function storedMark(mark: string, { marks }: Driver): string {
  if (isTime(mark)) return mark;
  const hash = marks === "time" ? undefined : hashOfMark(mark);
  if (hash !== undefined) return hash;
  const time = timeOfMark(mark);
  return time === undefined ? "" : timeMark(time);
}

export function copyEntry({ body, at, key }: NewEntry): NewEntry {
  if (!Number.isFinite(at)) throw invalidOption("the time of an entry must be a number");
  return key === undefined ? { body, at } : { body, at, key };
}

/** Copies a heading without undefined fields. */
export function copyHeading({ environment, opened, parent, ended }: Heading): Heading {
  const copy: Heading = { environment, opened };
  if (parent) copy.parent = { session: parent.session, version: parent.version };
  if (ended) copy.ended = ended;
  return copy;
}

/** Returns whether two entries have the same key. */
export function hasTwins({ entries }: Pick<Write, "entries">): boolean {
  if (entries.length === 1) return false;
  const keys = entries.flatMap(({ key }) => key ?? []);
  return new Set(keys).size < keys.length;
}

/** Estimates the bytes of a unit. */
export function weigh(unit: Unit): number {
  let bytes = 0;
  for (const { entries, snapshot } of unit) {
    for (const { body } of entries) bytes += body.length;
    if (snapshot) bytes += snapshot.body.length;
  }
  return bytes;
}
