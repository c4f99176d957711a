// A rollout's session id and random seed. They are computed from its collection and its numbers, so that a resumed
// collection finds them again.
import { createHash } from "node:crypto";
import { readRandomSeed, type Rollout, type TaskRow } from "../core/rollout.ts";

/** Adds a rollout's session id: stable in a resumed collection, unguessable without the collection's id. */
export function withAttempt(run: string, rollout: Rollout, attempt: number): Rollout {
  const { task, repeat, origin } = rollout;
  const about = origin ? [origin.conversation, origin.branch, attempt] : [run, task, repeat, attempt];
  return { ...rollout, attempt, session: toSessionId(about) };
}

/** Returns the row's random seed; otherwise a seed derived from these numbers. */
export function toRandomSeed(row: TaskRow, numbers: [seed: number, task: number, repeat: number]): number {
  return readRandomSeed(row) ?? digestParts(...numbers).readUInt32BE();
}

function toSessionId(about: (string | number)[]): string {
  return digestParts(...about)
    .toString("base64url")
    .slice(0, 22)
    .replace(/^-/, "_");
}

function digestParts(...parts: (string | number)[]): Buffer {
  return createHash("sha256").update(JSON.stringify(parts)).digest();
}
