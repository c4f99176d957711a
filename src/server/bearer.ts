// bearerCheck(): whether an Authorization header has the server's token.
import { createHash, timingSafeEqual } from "node:crypto";

// Of the same length whatever was sent, so that the time to compare tells nothing.
const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

export function bearerCheck(token: string): (header: string | undefined) => boolean {
  const wanted = digest(token);
  return (header) => {
    const [, given] = /^bearer +(\S+) *$/i.exec(header ?? "") ?? [];
    return given !== undefined && timingSafeEqual(digest(given), wanted);
  };
}
