// The value of the session cookie: a signed token, and the version of the last answer that the client got.

/**
 * Puts a version behind a token, with a checksum. The version is not signed, which would cost an HMAC for every reply: a
 * client that makes one up can only get an answer of its own session again. The checksum makes a damaged cookie invalid.
 */
export function writeCookie(token: string, version: number | undefined): string {
  if (version === undefined) return token;
  const text = `${token}.${version.toString(36)}`;
  return `${text}-${checksum(text)}`;
}

/** Splits a cookie. Without a version, or with a damaged one, all of it is the token, which is then judged by its signature. */
export function parseCookie(value: string): { token: string; version?: number } {
  const dash = value.lastIndexOf("-");
  const dot = value.lastIndexOf(".", dash);
  // A token alone has one dot, before its signature.
  if (dash < 0 || dot < 0 || value.indexOf(".") === dot || dash - dot > 11) return { token: value };
  const text = value.slice(0, dash);
  if (value.slice(dash + 1) !== checksum(text)) return { token: value };
  return { token: value.slice(0, dot), version: Number.parseInt(text.slice(dot + 1), 36) };
}

/** FNV-1a of 32 bits. */
function checksum(text: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return (hash >>> 0).toString(36);
}
