// fillInstruction(): replaces references to the state in an instruction.
import type { AgentState } from "../core/shared-state.ts";
import { HoldfastError } from "../core/errors.ts";

/** `{key}`, `{user:key}`, `{key?}`. Other braces, such as those of JSON, stay unchanged. */
const reference = /\{((?:user:|app:|temp:)?[A-Za-z_][A-Za-z0-9_]*)(\?)?\}/g;

/** Returns the instruction with values of the state. A missing key is an error, unless it ends with "?". */
export function fillInstruction(instruction: string, state: AgentState): string {
  return instruction.replaceAll(reference, (_, key: string, optional: string | undefined) => {
    const value: unknown = Object.hasOwn(state, key) ? state[key] : undefined;
    if (value !== undefined && value !== null) return typeof value === "string" ? value : JSON.stringify(value);
    if (optional) return "";
    const message = `the instruction names {${key}}, which the state does not have; write {${key}?} if it may be missing`;
    throw new HoldfastError("missing_state", message, { detail: { key } });
  });
}
