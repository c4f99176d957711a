// hideSecrets(): a store's URL for records, logs and messages, without its password, token and keys.

const secretName = /pass|pwd|token|secret|credential|signature|auth|(?:access|api|private)[-_]?key|^(?:key|sig)$/i;

/**
 * Returns the URL without its secrets; `mark` replaces each secret. The user is kept for Redis and Postgres. For other
 * stores it is removed, because it may be a token. An @ after the first slash may end an unescaped password. In that
 * case everything before the @ becomes "…". A regular expression splits the URL, because `URL` refuses a list of hosts.
 */
export function hideSecrets(url: string, mark = ""): string {
  const [, scheme = "", rest = ""] = /^([a-z][a-z0-9+.-]*:(?:\/\/)?)(.*)$/is.exec(url) ?? [];
  if (scheme === "") return url.replace(/^.*@/s, "…@");
  const [, address = "", query = ""] = /^([^?]*)\??(.*)$/s.exec(rest) ?? [];
  const parts = query.split("&").filter((part) => part !== "");
  const kept = parts.filter((part) => !isSecret(part));
  // The @ in the query may be part of a secret, or end a password that contains a question mark.
  if (query.includes("@") && kept.length < parts.length) return `${scheme}…`;
  const shown = kept.length === 0 ? address : `${address}?${kept.join("&")}`;
  const end = shown.lastIndexOf("@");
  if (end === -1 || isPrefix(scheme, shown)) return scheme + shown;
  const [user, after] = [shown.slice(0, end), shown.slice(end + 1)];
  if (/[/?#\\]/.test(user)) return `${scheme}…@${after}`;
  return `${scheme}${credentials(scheme, user, mark)}${after}`;
}

/** Hides the secrets in a word of a command, such as `--store=URL`. Changes no other words. */
export const hideSecretsInWord = (word: string, mark?: string): string =>
  word.replace(/^(--[\w-]+=)?([a-z][a-z0-9+.-]*:\/\/.*)$/is, (_, flag = "", url) => flag + hideSecrets(url, mark));

function isSecret(part: string): boolean {
  const [name] = new URLSearchParams(part).keys();
  return secretName.test(name ?? "");
}

/** An S3 store's URL has no user, so an @ after its bucket belongs to the prefix. */
const isPrefix = (scheme: string, rest: string): boolean =>
  /^s3:/i.test(scheme) && /^[^@:/?#\\]+\/[^?]*(?:\?[^@]*)?$/.test(rest);

function credentials(scheme: string, text: string, mark: string): string {
  const colon = text.indexOf(":");
  // Redis credentials without a colon are usually meant as a password.
  const isUser = /^postgres/i.test(scheme) || (/^redis/i.test(scheme) && colon !== -1);
  if (!isUser) return mark && `${mark}@`;
  const user = colon === -1 ? text : text.slice(0, colon);
  const hidden = colon === -1 || mark === "" ? user : `${user}:${mark}`;
  return hidden && `${hidden}@`;
}
