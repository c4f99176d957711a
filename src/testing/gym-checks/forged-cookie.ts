// The cookie of NeMo Gym's servers: its secret key is its own name, so anybody can sign one.
import { createHash, createHmac } from "node:crypto";

/**
 * Signs the content of a cookie again, with its name as the key, as itsdangerous' TimestampSigner does. Returns undefined
 * if the cookie has another form.
 */
export function forgedWithItsName(name: string, value: string): string | undefined {
  const [content = "", time, signature, ...more] = value.replace(/^"(.*)"$/, "$1").split(".");
  if (time === undefined || signature === undefined || more.length > 0 || !isSession(content)) return undefined;
  const seconds = Buffer.alloc(4);
  seconds.writeUInt32BE(Math.floor(Date.now() / 1000));
  const signed = `${content}.${seconds.toString("base64url")}`;
  const key = createHash("sha1").update(`itsdangerous.Signersigner${name}`).digest();
  return `${signed}.${createHmac("sha1", key).update(signed).digest("base64url")}`;
}

function isSession(content: string): boolean {
  try {
    return typeof JSON.parse(Buffer.from(content, "base64").toString()) === "object";
  } catch {
    return false;
  }
}
