// The id of a call, as a client sends it. A repeat with the same id gets the recorded answer.
import { invalidOption } from "../../core/errors.ts";
import { isObject } from "../../core/json.ts";

/**
 * Reads an id from a request; undefined if there is none. A number becomes a string. Too large numbers are refused:
 * they lose digits when they are parsed, so two different ids could become equal.
 */
export function readCallId(given: unknown, name: string): string | undefined {
  if (given === undefined || given === null) return undefined;
  if (typeof given === "string" && given !== "") return given;
  if (typeof given === "number" && Math.abs(given) <= Number.MAX_SAFE_INTEGER) return String(given);
  throw invalidOption(`\`${name}\` must be a string, or a number of at most ${Number.MAX_SAFE_INTEGER}`);
}

/**
 * The keys in `_meta` of an MCP call that hold its id. JSON-RPC request ids restart with each client, so they do not
 * identify a call.
 */
const metaKeys = ["dev.holdfast/call", "claudecode/toolUseId", "callId"];

/** Reads the id of an MCP call from its `_meta`; undefined if there is none. */
export function readMetaCall(meta: unknown): string | undefined {
  if (!isObject(meta)) return undefined;
  const key = metaKeys.find((each) => meta[each] !== undefined && meta[each] !== null);
  return key === undefined ? undefined : readCallId(meta[key], key);
}
