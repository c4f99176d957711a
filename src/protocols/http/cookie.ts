// The session cookie: how it is read, and its value, a signed token with the version of the client's last answer.

/**
 * Puts a version behind a token, with a checksum. The version is not signed, which would cost an HMAC for every reply: a
 * client that makes one up can only get an answer of its own session again. The checksum makes a damaged cookie invalid.
 */
export function writeCookie(token: string, version: number | undefined): string {
  return version === undefined ? token : `${token}.${version}-${checksum(token, version)}`;
}

/** Returns the header that keeps a cookie, which is a name and a value. */
export const keptCookie = (pair: string): string => `${pair}; Path=/; Max-Age=1209600; HttpOnly; SameSite=Lax`;

/** Splits a cookie. Without a version, or with a damaged one, all of it is the token, which is then judged by its signature. */
export function parseCookie(value: string): { token: string; version?: number } {
  const dash = value.lastIndexOf("-");
  const dot = value.lastIndexOf(".", dash);
  // A token alone has one dot, before its signature.
  if (dash < 0 || dot < 0 || value.indexOf(".") === dot || dash - dot > 17) return { token: value };
  const token = value.slice(0, dot);
  const version = Number(value.slice(dot + 1, dash));
  const isWhole = version >= 0 && Number(value.slice(dash + 1)) === checksum(token, version);
  return isWhole ? { token, version } : { token: value };
}

/** FNV-1a, cut to 30 bits, of the version and the last characters of the token, whose signature covers the others. */
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
