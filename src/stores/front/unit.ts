// Commits as drivers get them: copied, so that the caller may change its own, checked and weighed.
import { HoldfastError } from "../../core/errors.ts";
import type { Commit, Heading, NewEntry } from "../../core/store.ts";
import type { Driver, Unit, Write } from "./driver.ts";
import { timeMark } from "./mark.ts";
import { escapeWrite } from "./utf8-escape.ts";

/** Copies commits that were handed over together. "duplicate" if two entries of one have the same key. */
export function toUnit(commits: readonly Commit[], { name, together, text }: Driver): Unit | "duplicate" {
  const [first] = commits as [Commit];
  // Most are alone, with one entry.
  const unit = commits.length === 1 ? [toWrite(first)] : commits.map(toWrite);
  if (unit.length > 1) {
    if (!together) throw invalid(`${name} cannot store commits to several sessions together`);
    if (new Set(unit.map(({ session }) => session)).size < unit.length) {
      throw invalid("commits that are appended together must be for different sessions");
    }
  }
  if (unit.some(hasTwins)) return "duplicate";
  if (text === "utf8") unit.forEach(escapeWrite);
  return unit as unknown as Unit;
}

function toWrite({ session, version, seen, entries: given, heading, snapshot }: Commit): Write {
  if (version === 0 && heading === undefined) throw invalid("the commit of version 0 needs a heading");
  const entries = (given.length === 1 ? [copyEntry(given[0])] : given.map(copyEntry)) as [NewEntry, ...NewEntry[]];
  const write: Write = {
    session,
    seen: { version, mark: version === 0 || seen === undefined ? "" : timeMark(seen) },
    entries,
    mark: timeMark(entries[entries.length - 1]!.at),
  };
  if (heading) write.heading = copyHeading(heading);
  if (snapshot) write.snapshot = { version: snapshot.version, body: snapshot.body };
  return write;
}

function copyEntry({ body, at, key }: NewEntry): NewEntry {
  if (!Number.isFinite(at)) throw invalid("the time of an entry must be a number");
  return key === undefined ? { body, at } : { body, at, key };
}

/** A heading that nobody else holds, without members that are undefined. */
export function copyHeading({ environment, opened, parent, ended }: Heading): Heading {
  const copy: Heading = { environment, opened };
  if (parent) copy.parent = { session: parent.session, version: parent.version };
  if (ended) copy.ended = ended;
  return copy;
}

function hasTwins({ entries }: Write): boolean {
  if (entries.length === 1) return false;
  const keys = entries.flatMap(({ key }) => key ?? []);
  return new Set(keys).size < keys.length;
}

/** About how many bytes a unit has. */
export function weigh(unit: Unit): number {
  let bytes = 0;
  for (const { entries, snapshot } of unit) {
    for (const { body } of entries) bytes += body.length;
    if (snapshot) bytes += snapshot.body.length;
  }
  return bytes;
}

function invalid(message: string): HoldfastError {
  return new HoldfastError("invalid_option", message);
}
