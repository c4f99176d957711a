// hideSecrets(): a store's URL for records, logs and messages, without its password, token and keys.

const secretName = /pass|pwd|token|secret|credential|signature|auth|(?:access|api|private)[-_]?key|^(?:key|sig)$/i;

/**
 * Returns the URL without its secrets. The user is kept for Redis and Postgres; elsewhere it may be a token. `mark`
 * replaces each secret. An @ after the first slash may end an unescaped password. In that case everything before it
 * becomes "…". A pattern splits the URL, because `URL` refuses several hosts.
 */
export function hideSecrets(url: string, mark = ""): string {
  const [, scheme = "", rest = ""] = /^([a-z][a-z0-9+.-]*:(?:\/\/)?)(.*)$/is.exec(url) ?? [];
  if (scheme === "") return url.replace(/^.*@/s, "…@");
  const [, address = "", query = ""] = /^([^?]*)\??(.*)$/s.exec(rest) ?? [];
  const parts = query.split("&").filter((part) => part !== "");
  const kept = parts.filter((part) => !isSecret(part));
  // This @ may be in a secret in the query, or end a password that contains a question mark.
  if (query.includes("@") && kept.length < parts.length) return `${scheme}…`;
  const shown = kept.length === 0 ? address : `${address}?${kept.join("&")}`;
  const end = shown.lastIndexOf("@");
  if (end === -1 || isPrefix(scheme, shown)) return scheme + shown;
  const [user, after] = [shown.slice(0, end), shown.slice(end + 1)];
  if (/[/?#\\]/.test(user)) return `${scheme}…@${after}`;
  return `${scheme}${credentials(scheme, user, mark)}${after}`;
}

function isSecret(part: string): boolean {
  const [name] = new URLSearchParams(part).keys();
  return secretName.test(name ?? "");
}

/** An S3 store's URL has no user, so an @ after its bucket belongs to the prefix. */
const isPrefix = (scheme: string, rest: string): boolean =>
  /^s3:/i.test(scheme) && /^[^@:/?#\\]+\/[^?]*(?:\?[^@]*)?$/.test(rest);

function credentials(scheme: string, text: string, mark: string): string {
  const colon = text.indexOf(":");
  // Without a colon, people mean the Redis password.
  const isUser = /^postgres/i.test(scheme) || (/^redis/i.test(scheme) && colon !== -1);
  if (!isUser) return mark && `${mark}@`;
  const user = colon === -1 ? text : text.slice(0, colon);
  const hidden = colon === -1 || mark === "" ? user : `${user}:${mark}`;
  return hidden && `${hidden}@`;
}
