// createTally(): counts equal texts, such as errors, and lists the most frequent ones.
import { ellipsis } from "../core/ellipsis.ts";
import { plainLine } from "../io/plain.ts";

/** The maximum number of texts to keep and to show, and the length of a shown text. */
const [mostKept, mostShown, longest] = [1_000, 5, 400];

/** Texts that differ only in numbers count as equal, because a line, a port or a size often differs. */
export function createTally() {
  const counts = new Map<string, { text: string; count: number }>();
  let others = 0;
  return {
    /** Counts a text. Returns true if it is the first of its kind. */
    add(text: string): boolean {
      const key = text.replaceAll(/\d+/g, "0");
      const known = counts.get(key);
      if (known) known.count++;
      else if (counts.size >= mostKept) others++;
      else counts.set(key, { text, count: 1 });
      return known === undefined && counts.size <= mostShown;
    },
    /** Formats the most frequent texts as "3 × text". */
    lines(): string[] {
      const sorted = [...counts.values()].sort((a, b) => b.count - a.count);
      const left = sorted.slice(mostShown).reduce((sum, { count }) => sum + count, others);
      const shown = sorted
        .slice(0, mostShown)
        .map(({ text, count }) => `  ${count} × ${plainLine(ellipsis(text, longest))}`);
      return left > 0 ? [...shown, `  and ${left} more`] : shown;
    },
  };
}
