// The URL of a Postgres store: our parameters, the parameters of pg, and the form for messages.
import { invalidOption } from "../../core/errors.ts";
import type { Target } from "./connections.ts";

const shape = "postgres://USER:PASSWORD@HOST:PORT/DATABASE?schema=NAME&connections=NUMBER";

/** Parses a URL. No message shows it, because it may contain a password. */
export function targetOf(given: string): Target {
  let url: URL;
  try {
    url = new URL(given);
  } catch {
    throw invalidOption(`\`url\` is not a URL; it should look like ${shape}`);
  }
  if (url.protocol !== "postgres:" && url.protocol !== "postgresql:") {
    throw invalidOption(`\`url\` must begin with postgres:// and look like ${shape}`);
  }
  const schema = url.searchParams.get("schema") ?? "holdfast";
  const connections = Number(url.searchParams.get("connections") ?? 4);
  if (schema === "" || Buffer.byteLength(schema) > 63 || schema.includes("\0") || schema.includes("$")) {
    throw invalidOption("`schema` in the URL must be a name of 1 to 63 bytes, without $");
  }
  if (!Number.isInteger(connections) || connections < 1) {
    throw invalidOption("`connections` in the URL must be a whole number, at least 1");
  }
  url.searchParams.delete("schema");
  url.searchParams.delete("connections");
  return { url: url.href, name: `${url.host}${url.pathname}, schema ${schema},`, schema, connections };
}
