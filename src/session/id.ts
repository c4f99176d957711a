// newId(): ids that cannot be guessed.
import { randomBytes } from "node:crypto";

/** Bytes in an id. */
const size = 16;

// Random bytes are requested for 256 ids together: each request is a system call as slow as opening a session.
let pool = Buffer.alloc(0);
let used = 0;

export function newId(): string {
  if (used === pool.length) {
    pool = randomBytes(256 * size);
    used = 0;
  }
  used += size;
  // An id must not start with "-", because a command would read it as a flag.
  return pool.toString("base64url", used - size, used).replace(/^-/, "_");
}
