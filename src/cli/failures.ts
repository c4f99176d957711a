// Words for failed rollouts: "3 × model failed", never "model 3", which could be read as a task or model number.
import type { FailureCount } from "../rollout/metrics/failures.ts";
import { plainLine } from "./plain.ts";

const words: { [kind: string]: string } = {
  task: "invalid task",
  seed: "seed failed",
  model: "model failed",
  agent: "agent failed",
  tool: "tool failed",
  store: "store failed",
  verify: "verify failed",
  timeout: "out of time",
  worker: "worker process died",
  internal: "internal error",
};

/** Names a kind of failure. Files from other programs may have any text there. */
export const kindText = (kind: string): string =>
  Object.hasOwn(words, kind) ? (words[kind] as string) : plainLine(kind);

export function failuresText(failures: FailureCount[]): string {
  return failures.map(({ kind, count }) => `${count} × ${kindText(kind)}`).join(", ");
}
