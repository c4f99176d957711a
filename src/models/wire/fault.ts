// What went wrong with one attempt, whether another may help, and how servers word it.
import type { ErrorCode } from "../../core/errors.ts";
import { isFields, type Fields } from "./fields.ts";

interface FaultOptions {
  code?: ErrorCode;
  /** Whether the same request may succeed if it is sent again. */
  again?: boolean;
  /** How many milliseconds the server asks to be left alone. */
  after?: number | undefined;
  status?: number;
  /** The server's own word for it, such as "context_length_exceeded". */
  reason?: string | undefined;
  /** What the server sent, which may be long, and may repeat a key: it is cut only after keys were taken out. */
  said?: string | undefined;
  cause?: unknown;
}

/** One attempt that failed. Its message goes on where "chat:NAME at URL" ends. */
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

/** An answer that is not what the API documents. The next one may be. */
export const broken = (what: string, said?: string): Fault =>
  new Fault(`answered what cannot be read: ${what}`, { again: true, said });

export const cancelled = (signal: AbortSignal | undefined): Fault =>
  new Fault("was not waited for: the caller cancelled the request", { code: "model_cancelled", cause: signal?.reason });

/** What a server says of an error, in whichever of the known shapes. */
interface Complaint {
  message: string;
  /** The server's words for its kind, the more precise first. */
  reasons: string[];
}

export function complaintIn(body: unknown): Complaint | undefined {
  if (!isFields(body)) return undefined;
  // {"error": {…}} of OpenAI and Anthropic, {"error": "…"} of Ollama, {"object": "error", …} of vLLM, {"detail": …} of FastAPI.
  if (isFields(body["error"])) return complaintOf(body["error"]);
  if (typeof body["error"] === "string" && body["error"] !== "") return { message: body["error"], reasons: [] };
  if (body["object"] === "error" || body["type"] === "error") return complaintOf(body);
  if (typeof body["detail"] === "string") return { message: body["detail"], reasons: [] };
  if (body["detail"] !== undefined) return { message: JSON.stringify(body["detail"]), reasons: [] };
  return undefined;
}

function complaintOf({ message, code, type }: Fields): Complaint {
  // "error" is the kind of an event, and says nothing of the error.
  const reasons = [code, type].flatMap((reason) =>
    (typeof reason === "string" && reason !== "error") || typeof reason === "number" ? String(reason) : [],
  );
  return { message: typeof message === "string" ? message : (reasons[0] ?? "no reason was given"), reasons };
}

/** Asking again cannot help, whatever the status says: the conversation is too long, or there is no money left. */
const hopeless = new Set(["context_length_exceeded", "insufficient_quota"]);
const tooLong = /maximum context length|context (length|window)|prompt is too long|exceeds? the available context/i;

/** A request that was answered with another status than 2xx. */
export function faultOfStatus(status: number, body: unknown, text: string, after: number | undefined): Fault {
  const complaint = complaintIn(body) ?? { message: text.trim() || "no reason was given", reasons: [] };
  const options = { status, reason: complaint.reasons[0], after, said: complaint.message };
  const isOurs = status >= 400 && status < 500 && ![408, 409, 429].includes(status);
  if (status >= 400 && !isOurs && !isHopeless(complaint, status)) {
    return new Fault(`failed with status ${status}`, { ...options, again: true });
  }
  if (status < 400) {
    const what = "a redirection, which is not followed; set `baseUrl` to where it leads";
    return new Fault(`answered with status ${status}, ${what}`, { ...refused, status });
  }
  return new Fault(`refused the request with status ${status}`, { ...options, ...refused });
}

const refused = { code: "model_refused", again: false } as const;

function isHopeless({ message, reasons }: Complaint, status?: number): boolean {
  if (reasons.some((reason) => hopeless.has(reason))) return true;
  // A limit on tokens per minute mentions the context at times, and is over in a minute.
  return status !== 429 && tooLong.test(message);
}

/** Failures of the moment, as the APIs name them; another reason is about the request. */
const passing = /server_error|rate_limit|overloaded|api_error|timeout|unavailable|internal|^(408|409|429|5\d\d)$/i;

/** An error in an answer that began well: with status 200, or in the middle of a stream. */
export function faultOfComplaint(complaint: Complaint): Fault {
  const { message, reasons } = complaint;
  const again = !isHopeless(complaint) && (reasons.length === 0 || reasons.some((reason) => passing.test(reason)));
  const code = isHopeless(complaint) ? "model_refused" : "model_failed";
  return new Fault("failed", { code, again, reason: reasons[0], said: message });
}

/** Enough of a text to see what it is. */
export function shortened(text: string): string {
  const line = text.replaceAll(/\s+/g, " ").trim();
  return line.length > 500 ? `${line.slice(0, 500)}…` : line;
}
