// What is shown where there is nothing to show: it is on its way, it failed, or there is none.
import type { ComponentChildren } from "preact";
import type { Loaded } from "../data/use-loaded.ts";
import { plain } from "./format.ts";

export function Failure({ message }: { message: string }) {
  return (
    <p class="notice bad" role="alert">
      {plain(message)}
    </p>
  );
}

export function Nothing({ children }: { children: ComponentChildren }) {
  return <p class="notice">{children}</p>;
}

/** Shows what was loaded once it is there. */
export function Await<T>({ loaded, children }: { loaded: Loaded<T>; children: (value: T) => ComponentChildren }) {
  if (loaded.state === "failed") return <Failure message={loaded.message} />;
  if (loaded.state === "loading") return <Nothing>Loading…</Nothing>;
  return <>{children(loaded.value)}</>;
}
