// Ids that nobody can guess.
import { randomBytes } from "node:crypto";

export function newId(): string {
  return randomBytes(16).toString("base64url");
}
