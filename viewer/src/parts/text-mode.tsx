// The choice between formatted and raw text of messages. The browser remembers it.
import { useEffect, useState } from "preact/hooks";

const key = "holdfast text";
const listeners = new Set<(isRaw: boolean) => void>();
let isRawNow = remembered();

function remembered(): boolean {
  try {
    return localStorage.getItem(key) === "raw";
  } catch {
    return false;
  }
}

function setRaw(isRaw: boolean): void {
  isRawNow = isRaw;
  try {
    localStorage.setItem(key, isRaw ? "raw" : "formatted");
  } catch {
    // Without storage the next visit shows formatted text.
  }
  for (const listener of listeners) listener(isRaw);
}

/** Whether messages are shown as raw text. */
export function useRawText(): boolean {
  const [isRaw, setIsRaw] = useState(isRawNow);
  useEffect(() => {
    listeners.add(setIsRaw);
    return () => void listeners.delete(setIsRaw);
  }, []);
  return isRaw;
}

export function RawTextSwitch() {
  const isRaw = useRawText();
  return (
    <label class="raw-text">
      <input type="checkbox" checked={isRaw} onChange={({ currentTarget }) => setRaw(currentTarget.checked)} /> Raw text
    </label>
  );
}
