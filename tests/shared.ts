// What the tests of a run share. global-setup.ts makes each when a test first asks for it.
import { inject } from "vitest";

/** The folder dist, the packed package, and the URLs of a Redis and a Postgres. */
export type Shared = "dist" | "package" | "redis" | "postgres";

declare module "vitest" {
  interface ProvidedContext {
    shared: string;
  }
}

export async function shared(name: Shared): Promise<string> {
  const response = await fetch(`${inject("shared")}/${name}`);
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text;
}
