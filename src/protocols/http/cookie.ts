// Reads and writes the session cookie: a signed token, and the version in the client's last answer.

/**
 * Appends a version to a token, with a checksum. The version is not signed, because that would cost an HMAC for every
 * reply. A client that makes up a version can only get its own session's answers again. The checksum makes a damaged
 * cookie invalid.
 */
export function writeCookie(token: string, version: number | undefined): string {
  return version === undefined ? token : `${token}.${version}-${checksum(token, version)}`;
}

/** Returns the Set-Cookie header for a cookie, given as `name=value`. */
export const keptCookie = (pair: string): string => `${pair}; Path=/; Max-Age=1209600; HttpOnly; SameSite=Lax`;

/** Splits a cookie into its token and version. If the version is missing or damaged, the whole cookie is the token. */
export function parseCookie(value: string): { token: string; version?: number } {
  const dash = value.lastIndexOf("-");
  const dot = value.lastIndexOf(".", dash);
  // A token without a version has one dot, before its signature.
  if (dash < 0 || dot < 0 || value.indexOf(".") === dot || dash - dot > 17) return { token: value };
  const token = value.slice(0, dot);
  const version = Number(value.slice(dot + 1, dash));
  const isWhole = version >= 0 && Number(value.slice(dash + 1)) === checksum(token, version);
  return isWhole ? { token, version } : { token: value };
}

/**
 * FNV-1a, cut to 30 bits, over the version and the token's last characters. The token's signature protects the other
 * characters.
 */
function checksum(token: string, version: number): number {
  let hash = Math.imul(0x811c9dc5 ^ version, 0x01000193);
  for (let at = Math.max(0, token.length - 4); at < token.length; at++) {
    hash = Math.imul(hash ^ token.charCodeAt(at), 0x01000193);
  }
  return hash & 0x3fffffff;
}

/** Returns the values of all cookies with this name, without the quotes and escapes that some clients add. */
export function readCookies(header: string | undefined, name: string): string[] {
  if (!header?.includes(name)) return [];
  // Fast path: most clients send only this cookie.
  if (header.length > name.length && header[name.length] === "=" && header.startsWith(name) && !/[;"\s]/.test(header)) {
    return [header.slice(name.length + 1)];
  }
  return header.split(";").flatMap((pair) => {
    const at = pair.indexOf("=");
    if (pair.slice(0, Math.max(at, 0)).trim() !== name) return [];
    const value = pair.slice(at + 1).trim();
    const isQuoted = value.length > 1 && value.startsWith('"') && value.endsWith('"');
    return isQuoted ? value.slice(1, -1).replaceAll(/\\([0-3][0-7]{2}|.)/gs, unescaped) : value;
  });
}

function unescaped(_: string, escaped: string): string {
  return escaped.length === 3 ? String.fromCharCode(Number.parseInt(escaped, 8)) : escaped;
}
