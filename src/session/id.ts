// newId(): ids that cannot be guessed.
import { randomBytes } from "node:crypto";

export function newId(): string {
  // Not starting with "-": a command would read it as a flag.
  return randomBytes(16).toString("base64url").replace(/^-/, "_");
}
