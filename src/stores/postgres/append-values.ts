// The call of `append_units`: its arguments, for a whole group of units.
import { timeOfMark } from "../front/mark.ts";
import type { Unit } from "../front.ts";
import { doubleArray, integerArray, textArray } from "./wire.ts";

const types = `integer[], text[], integer[], text[], double precision[], integer[], integer[], double precision[], text[], text[], text[],
  integer[], text[], text[], double precision[], text[], integer[], text[], double precision[], integer[], integer[], text[]`;

export function appendStatement(schema: string): string {
  const values = types.split(",").map((type, index) => `$${index + 1}::${type.trim()}`);
  return `SELECT ${schema}.append_units(${values.join(", ")}) AS answers`;
}

/** Writes are numbered within the group, from 1. */
export function appendValues(units: readonly Unit[]): Buffer[] {
  const writes = units.flat();
  const alone = writes.length === units.length;
  const unitOf = alone ? [] : units.flatMap((unit, index) => unit.map(() => index));
  const entries = writes.flatMap(({ seen, entries, mark }, index) =>
    entries.map((entry, at) => ({
      place: index + 1,
      version: seen.version + 1 + at,
      entry,
      chain: at === entries.length - 1 && timeOfMark(mark) === undefined ? mark : null,
    })),
  );
  const headings = writes.flatMap(({ session, entries, heading }, index) =>
    heading ? { place: index + 1, session, heading, touched: entries.at(-1)!.at } : [],
  );
  const snapshots = writes.flatMap(({ snapshot }, index) => (snapshot ? { place: index + 1, ...snapshot } : []));
  return [
    integerArray(unitOf),
    textArray(writes.map(({ session }) => session)),
    integerArray(writes.map(({ seen }) => seen.version)),
    textArray(writes.map(({ seen: { mark } }) => (timeOfMark(mark) === undefined ? mark : ""))),
    // NaN for a missing value: lookups in arrays with nulls are slow.
    doubleArray(writes.map(({ seen: { mark } }) => timeOfMark(mark) ?? Number.NaN)),
    integerArray(entries.map(({ place }) => place)),
    integerArray(entries.map(({ version }) => version)),
    doubleArray(entries.map(({ entry }) => entry.at)),
    textArray(entries.map(({ entry }) => entry.key ?? null)),
    textArray(entries.map(({ entry }) => entry.body)),
    textArray(entries.map(({ chain }) => chain)),
    integerArray(headings.map(({ place }) => place)),
    textArray(headings.map(({ session }) => session)),
    textArray(headings.map(({ heading }) => heading.environment)),
    doubleArray(headings.map(({ heading }) => heading.opened)),
    textArray(headings.map(({ heading }) => heading.parent?.session ?? null)),
    integerArray(headings.map(({ heading }) => heading.parent?.version ?? null)),
    textArray(headings.map(({ heading }) => heading.ended ?? null)),
    doubleArray(headings.map(({ touched }) => touched)),
    integerArray(snapshots.map(({ place }) => place)),
    integerArray(snapshots.map(({ version }) => version)),
    textArray(snapshots.map(({ body }) => body)),
  ];
}
