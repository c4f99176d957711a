// OpenEnv's observations and errors: how an answer, a verdict and a failure look on its wire.
import type { ErrorCode, HoldfastError } from "../../core/errors.ts";
import { isObject, type Json } from "../../core/json.ts";
import type { Answer, Verification } from "../../core/sessions.ts";

/** The result of a reset or a step. */
export interface Observed {
  observation: object;
  reward: number | null;
  done: boolean;
  metadata?: object;
}

/** A tool's output, in the form of OpenEnv's tool results. */
export function toToolResult(output: Json): object {
  const text = typeof output === "string" ? output : JSON.stringify(output ?? null);
  return {
    content: [{ type: "text", text, annotations: null, meta: null }],
    structured_content: isObject(output) ? output : { result: output },
    meta: null,
    data: output,
    is_error: false,
  };
}

const errorTypes: { [code in ErrorCode]?: string } = {
  unknown_tool: "tool_not_found",
  invalid_input: "invalid_args",
  tool_timeout: "timeout",
  call_cancelled: "timeout",
};

/** The observation after a call. A mistake of the model is also an observation, not a failure. */
export function observeCall(tool: string, answer: Answer): Observed {
  const outcome = answer.ok
    ? { result: toToolResult(answer.output), error: null }
    : { result: null, error: toToolError(answer.error) };
  return { observation: { tool_name: tool, ...outcome }, reward: null, done: false };
}

const toToolError = ({ code, message }: { code: ErrorCode; message: string }): object => ({
  error_type: errorTypes[code] ?? "execution_error",
  message,
});

/** The observation at the end of an episode. */
export function observeVerdict(
  tool: string | undefined,
  { reward, verdict }: Pick<Verification, "reward" | "verdict">,
): Observed {
  const observation =
    tool === undefined ? { verdict } : { tool_name: tool, result: toToolResult(verdict), error: null };
  return { observation, reward, done: true };
}

const validation = new Set<ErrorCode>(["invalid_task", "invalid_option", "invalid_input", "not_found", "not_json"]);

/** The code of an error frame. */
export function frameCode({ code }: HoldfastError): string {
  if (code === "invalid_json") return "INVALID_JSON";
  if (code.startsWith("session_") || code === "episode_in_flight") return "SESSION_ERROR";
  return validation.has(code) ? "VALIDATION_ERROR" : "EXECUTION_ERROR";
}
