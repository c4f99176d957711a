// newId(): ids that cannot be guessed.
import { randomBytes } from "node:crypto";

/** Bytes of an id. */
const size = 16;

// Requesting random bytes is a system call that costs as much as opening a session, however many bytes it returns.
let pool = Buffer.alloc(0);
let used = 0;

export function newId(): string {
  if (used === pool.length) {
    pool = randomBytes(256 * size);
    used = 0;
  }
  used += size;
  // Must not start with "-", because a command would read it as a flag.
  return pool.toString("base64url", used - size, used).replace(/^-/, "_");
}
