// The shared resources of a test run. global-setup.ts makes each one on first use.
import { afterAll, inject } from "vitest";

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

/** Starts a server for a test file on first use. It stops after the last test of the file. */
export function startOnce<Server extends { stop(): Promise<unknown> }>(
  start: () => Promise<Server>,
): () => Promise<Server> {
  let started: Promise<Server> | undefined;
  afterAll(async () => (await started)?.stop());
  return () => (started ??= start());
}
