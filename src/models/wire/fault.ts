// Failures of one attempt: their cause, whether a retry may help, and servers' error formats.
import { isObject } from "../../core/json.ts";
import { ellipsis } from "../../core/ellipsis.ts";
import type { ErrorCode } from "../../core/errors.ts";
import type { Fields } from "./fields.ts";

interface FaultOptions {
  code?: ErrorCode;
  /** Whether the same request may succeed if retried. */
  again?: boolean;
  /** The pause that the server asks for, in milliseconds. */
  after?: number | undefined;
  status?: number;
  /** The server's error code, such as "context_length_exceeded". */
  reason?: string | undefined;
  /** The server's text. It may be long and contain a key, so it is cut only after keys are removed. */
  said?: string | undefined;
  cause?: unknown;
}

/** A failed attempt. Its message follows the words "chat:NAME at URL". */
export class Fault extends Error {
  readonly code: ErrorCode;
  readonly again: boolean;
  readonly after: number | undefined;
  readonly status: number | undefined;
  readonly reason: string | undefined;
  readonly said: string | undefined;

  constructor(message: string, options: FaultOptions = {}) {
    super(message, { cause: options.cause });
    this.code = options.code ?? "model_failed";
    this.again = options.again ?? false;
    this.after = options.after;
    this.status = options.status;
    this.reason = options.reason;
    this.said = options.said;
  }
}

/** Returns the fault for an answer that violates the API. A retry may succeed. */
export const broken = (what: string, said?: string): Fault =>
  new Fault(`sent an invalid answer: ${what}`, { again: true, said });

export const cancelled = (signal: AbortSignal | undefined): Fault =>
  new Fault("did not answer before the caller cancelled the request", {
    code: "model_cancelled",
    cause: signal?.reason,
  });

/** A server's description of an error, in any known format. */
interface Complaint {
  message: string;
  /** The server's error codes, the most precise first. */
  reasons: string[];
}

export function complaintIn(body: unknown): Complaint | undefined {
  if (!isObject(body)) return undefined;
  // {"error": {…}} of OpenAI and Anthropic, {"error": "…"} of Ollama, {"object": "error", …} of vLLM, {"detail": …} of
  // FastAPI.
  if (isObject(body["error"])) return toComplaint(body["error"]);
  if (typeof body["error"] === "string" && body["error"] !== "") return { message: body["error"], reasons: [] };
  if (body["object"] === "error" || body["type"] === "error") return toComplaint(body);
  if (typeof body["detail"] === "string") return { message: body["detail"], reasons: [] };
  if (body["detail"] !== undefined) return { message: JSON.stringify(body["detail"]), reasons: [] };
  return undefined;
}

function toComplaint({ message, code, type }: Fields): Complaint {
  // "error" is the type of an event, not of the error.
  const reasons = [code, type].flatMap((reason) =>
    (typeof reason === "string" && reason !== "error") || typeof reason === "number" ? String(reason) : [],
  );
  return { message: typeof message === "string" ? message : (reasons[0] ?? "no reason was given"), reasons };
}

/** Reasons that a retry cannot change, whatever the status: the conversation is too long, or the quota is used up. */
const hopeless = new Set(["context_length_exceeded", "insufficient_quota"]);
const tooLong = /maximum context length|context (length|window)|prompt is too long|exceeds? the available context/i;

/** Returns the fault for an answer whose status is not 2xx. */
export function statusFault(status: number, body: unknown, text: string, after: number | undefined): Fault {
  const complaint = complaintIn(body) ?? { message: text.trim() || "no reason was given", reasons: [] };
  const options = { status, reason: complaint.reasons[0], after, said: complaint.message };
  const isOurs = status >= 400 && status < 500 && ![408, 409, 429].includes(status);
  if (status >= 400 && !isOurs && !isHopeless(complaint, status)) {
    return new Fault(`failed with status ${status}`, { ...options, again: true });
  }
  if (status < 400) {
    const what = "a redirect, which is not followed; set `baseUrl` to the URL that it points to";
    return new Fault(`answered with status ${status}, ${what}`, { ...refused, status });
  }
  return new Fault(`refused the request with status ${status}`, { ...options, ...refused });
}

const refused = { code: "model_refused", again: false } as const;

function isHopeless({ message, reasons }: Complaint, status?: number): boolean {
  if (reasons.some((reason) => hopeless.has(reason))) return true;
  // A limit on tokens per minute (429) may mention the context, but a retry helps after a minute.
  return status !== 429 && tooLong.test(message);
}

/** Names of temporary failures. Any other reason is about the request itself. */
const passing = /server_error|rate_limit|overloaded|api_error|timeout|unavailable|internal|^(408|409|429|5\d\d)$/i;

/** Returns the fault for an error inside an answer with status 200, or in the middle of a stream. */
export function complaintFault(complaint: Complaint): Fault {
  const { message, reasons } = complaint;
  const again = !isHopeless(complaint) && (reasons.length === 0 || reasons.some((reason) => passing.test(reason)));
  const code = isHopeless(complaint) ? "model_refused" : "model_failed";
  return new Fault("failed", { code, again, reason: reasons[0], said: message });
}

/** Returns the start of a string, on one line. */
export const shortened = (text: string): string => ellipsis(text.replaceAll(/\s+/g, " ").trim(), 500);
