// Ids that nobody can guess.
import { randomBytes } from "node:crypto";

export function newId(): string {
  // Not with "-" first: a command would take it for a flag.
  return randomBytes(16).toString("base64url").replace(/^-/, "_");
}
