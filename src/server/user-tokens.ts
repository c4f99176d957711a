// createUserTokens(): signs tokens that name a user. Such a token opens only that user's conversations.
import { invalidOption } from "../core/errors.ts";
import { createTokens } from "./tokens.ts";

/** Prefix of every signed value. Session tokens have another prefix, so they are not valid as user tokens. */
const purpose = "holdfast user token\n";
/** Milliseconds after which a token expires, unless its issuer says otherwise. */
const lifetime = 24 * 60 * 60 * 1000;

export interface UserToken {
  token: string;
  user: string;
  /** In milliseconds since 1970. */
  expires: number;
}

export interface UserTokens {
  /** Signs a token. `expires`: in milliseconds since 1970; by default in 24 hours. */
  issue(user: string, expires?: number): UserToken;
  /** Returns the user of a valid token that has not expired. */
  check(token: string): string | undefined;
}

/** Signs with the first key and accepts signatures made with any key. */
export function createUserTokens(keys: string[]): UserTokens {
  const tokens = createTokens(keys, purpose);
  return {
    issue(user, expires = Date.now() + lifetime) {
      // A lone surrogate would become another character in the token, and so another user.
      const isUser = user.length > 0 && user.length <= 200 && Buffer.from(user).toString() === user;
      if (!isUser) throw invalidOption("the user must be a string of 1 to 200 characters");
      if (!Number.isSafeInteger(expires) || expires <= Date.now()) {
        throw invalidOption("`expires` must be a time in the future, in milliseconds since 1970");
      }
      return { token: tokens.issue(`${expires}.${user}`), user, expires };
    },
    check(token) {
      const value = tokens.check(token);
      if (value === undefined) return undefined;
      const dot = value.indexOf(".");
      return Number(value.slice(0, dot)) > Date.now() ? value.slice(dot + 1) : undefined;
    },
  };
}
