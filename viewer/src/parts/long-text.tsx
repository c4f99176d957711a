// A text of any length: its beginning, and the rest on request, without blocking the page.
import { useEffect, useMemo, useState } from "preact/hooks";
import { bytes, showInvisible } from "./format.ts";
import { Markdown } from "./markdown-view.tsx";
import { firstLines, splitText } from "./text-chunks.ts";
import { useRawText } from "./text-mode.tsx";

export interface LongTextProps {
  text: string;
  /** The number of lines shown initially. */
  lines?: number;
  /** Formats the text as Markdown, unless the reader wants raw text. */
  isMarkdown?: boolean;
  /** Whether the whole text is shown, and the handler of the button, if the caller stores that state. */
  isOpen?: boolean;
  onOpen?(isOpen: boolean): void;
}

/** The number of pieces rendered at a time. */
const atOnce = 8;

/** Longer texts are shown raw, because formatting them takes too long. */
const longestMarkdown = 60_000;

export function LongText({ text, lines = 12, isMarkdown = false, isOpen, onOpen }: LongTextProps) {
  const isFormatted = !useRawText() && isMarkdown;
  const [isOpenHere, setIsOpenHere] = useState(false);
  const beginning = useMemo(() => firstLines(text, lines), [text, lines]);
  if (beginning.length === text.length) {
    return isFormatted ? <Markdown text={text} /> : <pre class="long-text">{showInvisible(text)}</pre>;
  }
  const open = isOpen ?? isOpenHere;
  const change = (): void => (onOpen ? onOpen(!open) : setIsOpenHere(!open));
  return (
    <div class="long-text">
      {open ? (
        isFormatted && text.length <= longestMarkdown ? (
          <Markdown text={text} />
        ) : (
          <AllPieces text={text} />
        )
      ) : isFormatted ? (
        <Markdown text={`${beginning.trimEnd()}…`} />
      ) : (
        <pre>{showInvisible(beginning)}…</pre>
      )}
      <button class="quiet long-text-more" aria-expanded={open} onClick={change}>
        {open ? "Show less" : `Show all ${sizeOf(text, lines)}`}
      </button>
    </div>
  );
}

function sizeOf(text: string, shown: number): string {
  // Lines of a large text are not counted.
  const lines = text.length < 100_000 ? text.split("\n").length : 0;
  if (lines > shown) return `${lines} lines`;
  return text.length < 1000 ? `${text.length} characters` : bytes(text.length);
}

/** Renders pieces that cost no layout while out of view (`content-visibility`). */
function AllPieces({ text }: { text: string }) {
  const chunks = useMemo(() => splitText(text), [text]);
  const [count, setCount] = useState(atOnce);
  useEffect(() => {
    if (count >= chunks.length) return undefined;
    const frame = requestAnimationFrame(() => setCount(count + atOnce));
    return () => cancelAnimationFrame(frame);
  }, [count, chunks]);
  return (
    <div class={`long-text-all ${chunks.length > 1 ? "boxed" : ""}`} tabIndex={chunks.length > 1 ? 0 : undefined}>
      {chunks.slice(0, count).map((chunk, at) => (
        <pre key={at}>{showInvisible(chunk)}</pre>
      ))}
    </div>
  );
}
