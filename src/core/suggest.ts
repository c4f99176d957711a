// Refuses misspelt names, and suggests the closest known name.
import { showJson } from "./ellipsis.ts";
import type { HoldfastError } from "./errors.ts";

/** Returns "; did you mean X?" with the known name closest to a word, or else the list of known names. */
export function suggest(word: string, known: readonly string[]): string {
  const [best] = known
    .map((name) => ({ name, edits: editsBetween(word.toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, edits }) => edits <= Math.max(1, Math.floor(Math.max(name.length, word.length) * 0.4)))
    .sort((a, b) => a.edits - b.edits);
  return best ? `; did you mean ${best.name}?` : `; the options are ${known.join(", ")}`;
}

/** Refuses an option with an unknown name. `owner` names the thing that has the options, such as "tool". */
export function refuseUnknown(
  owner: string,
  options: object,
  known: { readonly [name: string]: unknown },
  refusal: (message: string) => HoldfastError,
): void {
  if (typeof options !== "object") {
    const given = typeof options === "string" ? showJson(options, 60) : typeof options;
    throw refusal(
      `${owner} takes an object with options, not ${given}; the options are ${Object.keys(known).join(", ")}`,
    );
  }
  // Every call of a tool runs this, and unlike Object.entries it creates no arrays.
  for (const name in options) {
    if (Object.hasOwn(known, name) || !Object.hasOwn(options, name) || options[name as never] === undefined) continue;
    throw refusal(`${owner} has no option "${name}"${suggest(name, Object.keys(known))}`);
  }
}

/** Counts the insertions, removals, replacements and swaps of neighbours that turn one word into the other one. */
function editsBetween(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    const above = rows[i - 1] as number[];
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1];
      let edits = Math.min(
        (above[j] as number) + 1,
        (row[j - 1] as number) + 1,
        (above[j - 1] as number) + Number(!isSame),
      );
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwap) edits = Math.min(edits, ((rows[i - 2] as number[])[j - 2] as number) + 1);
      row.push(edits);
    }
    rows.push(row);
  }
  return (rows.at(-1) as number[]).at(-1) as number;
}
