// Copies text and confirms it.
import { useEffect, useState } from "preact/hooks";

/** `text` is computed on click, because it may be large. */
export function CopyButton({ what, text }: { what: string; text: () => string }) {
  const [said, setSaid] = useState<string>();
  useEffect(() => {
    if (said === undefined) return undefined;
    const timer = setTimeout(() => setSaid(undefined), 1500);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = (): void => {
    // A page without a secure context has no clipboard.
    const done = navigator.clipboard?.writeText(text()) ?? Promise.reject(new Error("no clipboard"));
    done.then(
      () => setSaid("copied"),
      () => setSaid("cannot copy"),
    );
  };
  return (
    <button class="quiet copy" onClick={copy} aria-live="polite">
      {said ?? `copy ${what}`}
    </button>
  );
}
