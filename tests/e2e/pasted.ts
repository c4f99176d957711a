// A page whose code is pasted into a shell: its blocks, the files that they save, and the output that they show.
// A ```sh block is run. A ```ts block after "Save this as `FILE`" is saved there. The lines of a ```text block must be in
// the output of the ```sh block before it, in that order; … stands for anything.

export interface Block {
  line: number;
  info: string;
  text: string;
  /** The text between it and the previous block. */
  prose: string;
}

export function blocksOf(page: string): Block[] {
  const found: Block[] = [];
  let end = 0;
  for (const match of page.matchAll(/^```(.+)\n([^]*?)^```$/gm)) {
    const [all, info = "", text = ""] = match;
    const line = page.slice(0, match.index).split("\n").length;
    found.push({ line, info, text, prose: page.slice(end, match.index) });
    end = match.index + all.length;
  }
  return found;
}

/** The shell command that saves a ```ts block. Undefined if the page does not say to save it. */
export function savingOf({ info, text, prose }: Block): string | undefined {
  const [, file] = /Save this as `([^`]+)`[^`]*:\s*$/.exec(prose) ?? [];
  return info === "ts" && file !== undefined ? `cat > ${file} <<'END OF FILE'\n${text}END OF FILE\n` : undefined;
}

/** The first expected line that is missing from the output, in order. */
export function missingLine(expected: string, printed: string): string | undefined {
  let left = printed.split("\n");
  for (const line of expected.trimEnd().split("\n")) {
    const pattern = line.split("…").map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const at = left.findIndex((found) => new RegExp(`^${pattern.join(".*")}$`).test(found));
    if (at < 0) return line;
    left = left.slice(at + 1);
  }
  return undefined;
}
