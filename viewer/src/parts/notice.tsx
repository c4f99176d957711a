// Placeholders for missing content: loading, failed, or empty.
import type { ComponentChildren } from "preact";
import type { Loaded } from "../data/use-loaded.ts";
import { showInvisible } from "./format.ts";

export function Failure({ message }: { message: string }) {
  return (
    <p class="notice bad" role="alert">
      {showInvisible(message)}
    </p>
  );
}

export function Nothing({ children }: { children: ComponentChildren }) {
  return <p class="notice">{children}</p>;
}

/** Renders the loaded value when it is ready. */
export function Await<T>({ loaded, children }: { loaded: Loaded<T>; children: (value: T) => ComponentChildren }) {
  if (loaded.state === "failed") return <Failure message={loaded.message} />;
  if (loaded.state === "loading") return <Nothing>Loading…</Nothing>;
  return <>{children(loaded.value)}</>;
}
