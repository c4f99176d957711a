// answered(): the reply to a tool call.
import { errorTable } from "../../core/errors.ts";
import type { Reply } from "../../core/protocol.ts";
import type { Answer } from "../../core/sessions.ts";

/** Builds the reply that a model reads: the tool's output or its error. */
export function answered(answer: Answer): Reply {
  const headers: { [name: string]: string } = {};
  if (answer.unseeded) headers["holdfast-session"] = "new";
  if (answer.repeated) headers["holdfast-repeated"] = "true";
  if (!answer.ok) {
    const { code, message, detail = {} } = answer.error;
    return { status: errorTable[code].status, headers, body: { error: { code, message, detail } } };
  }
  if (typeof answer.output !== "string") return { status: 200, headers, body: answer.output };
  headers["content-type"] = "text/plain; charset=utf-8";
  return { status: 200, headers, text: answer.output };
}
