// The only error class, and the table of its codes. How errors are handled:
// 1. Code that knows the cause throws a HoldfastError with a code from the table.
// 2. `boundary` adds a code to errors from other code.
// 3. A tool that throws does not fail the request: the caller gets an answer with `ok: false`. `refuse` creates such an
// error.
// 4. A server turns the code into an HTTP status. An error without a code becomes `internal`, without its message.

/**
 * Every error code, with its HTTP status and its meaning. A code is never reused for a different meaning.
 *
 * @example
 * const { status, meaning } = errorTable.session_closed;
 */
export const errorTable = {
  not_json: { status: 422, meaning: "a value is not JSON; `detail.path` says where" },
  invalid_input: { status: 422, meaning: "the arguments of a call do not match the tool's input schema" },
  invalid_task: { status: 422, meaning: "a task does not match the environment's task schema" },
  invalid_option: { status: 400, meaning: "an option of an API call is invalid" },
  unknown_tool: { status: 404, meaning: "the environment has no tool with this name" },
  tool_failed: {
    status: 422,
    meaning: "the tool refused the call or threw an error; the message is the tool's own, and the state is unchanged",
  },
  state_invalid: {
    status: 422,
    meaning:
      "the tool wrote a state that does not match the state schema; the state is unchanged, and the event says where it is invalid",
  },
  tool_timeout: { status: 408, meaning: "the tool did not return in time; the state is unchanged" },
  outcome_unknown: {
    status: 409,
    meaning: "an external tool was started and its result was never recorded; it may or may not have taken effect",
  },
  session_not_found: { status: 404, meaning: "this environment has no session with this id" },
  session_exists: { status: 409, meaning: "a session with this id exists already" },
  session_closed: {
    status: 410,
    meaning: "the session was closed, or a limit on idle time, age or open sessions ended it",
  },
  session_unseeded: { status: 409, meaning: "the session must be seeded before the first call" },
  episode_in_flight: {
    status: 409,
    meaning: "the session already has a running episode, and a new seed must not replace it",
  },
  session_crowded: {
    status: 429,
    meaning: "too many calls are waiting on this session; retry after some are answered",
  },
  version_not_found: { status: 404, meaning: "the session's log does not have this version" },
  version_conflict: { status: 409, meaning: "other writers changed the session first; read it again and retry" },
  call_conflict: { status: 409, meaning: "the call id was used before with another tool or other arguments" },
  call_undone: { status: 409, meaning: "a rewind undid the call with this id; use a new call id" },
  call_in_progress: { status: 409, meaning: "the call with this id is running elsewhere; retry later" },
  call_not_open: {
    status: 409,
    meaning: "a result is for a call that the turn does not wait for: the call is unknown, or already has a result",
  },
  results_missing: {
    status: 409,
    meaning: "the turn waits for results of the client's tools; send a result for each call, or cancel the turn",
  },
  call_cancelled: { status: 408, meaning: "the caller cancelled the call; nothing was changed" },
  episode_ended: {
    status: 409,
    meaning: "the session was seeded again while the call was running; nothing was changed",
  },
  episode_over: {
    status: 409,
    meaning: "the episode was verified, so it gets no second verdict and no more model answers; start a new episode",
  },
  limit_reached: {
    status: 400,
    meaning:
      "the episode has used up its model calls, tokens, seconds or cost; a model may have been asked, but no answer was recorded",
  },
  seed_failed: {
    status: 500,
    meaning: "the environment's seed threw an error, or returned a state that does not match the state schema",
  },
  verify_failed: { status: 500, meaning: "the environment's verify threw an error, or did not return a finite reward" },
  invalid_environment: { status: 500, meaning: "the definition of an environment is wrong; the message says where" },
  cannot_load: { status: 400, meaning: "the environment or agent could not be loaded; the message says why" },
  engine_stopped: {
    status: 503,
    meaning: "this process has stopped its sessions; another process can continue with the same store",
  },
  store_closed: { status: 503, meaning: "the store was closed" },
  store_busy: { status: 503, meaning: "the store did not answer in time, or another process has locked it; retry" },
  store_full: { status: 507, meaning: "the store is full; nothing was written" },
  store_failed: { status: 503, meaning: "the store failed; retry the call with the same call id" },
  store_corrupt: { status: 500, meaning: "data in the store cannot be read; it was left unchanged" },
  store_newer: { status: 500, meaning: "a newer version of Holdfast wrote the store; it was left unchanged" },
  state_conflict: {
    status: 409,
    meaning: "two writers changed the same value at the same time, and the changes do not merge; nothing was changed",
  },
  session_busy: {
    status: 409,
    meaning: "an agent is already running on the session, in this or another process; nothing was started, retry later",
  },
  turn_lost: {
    status: 409,
    meaning:
      "another process took over the turn because this process stopped responding; the same call id returns the outcome",
  },
  run_cancelled: {
    status: 408,
    meaning: "the caller cancelled the run; committed steps stay, and the next run can continue from there",
  },
  nothing_to_continue: { status: 409, meaning: "the session has no interrupted turn" },
  missing_state: { status: 422, meaning: "an instruction uses a key that the state does not have" },
  invalid_agent: { status: 500, meaning: "the definition of an agent is wrong; the message says where" },
  callback_failed: {
    status: 500,
    meaning: "an agent's callback threw an error; the state changes of this step were discarded",
  },
  model_failed: {
    status: 502,
    meaning: "the model's server could not be reached, failed, or sent an invalid answer, even after retries",
  },
  model_refused: { status: 502, meaning: "the model's server refused the request; the message has its reason" },
  model_timeout: { status: 504, meaning: "the model did not answer in time, even after retries" },
  model_cancelled: { status: 408, meaning: "the caller cancelled the request to the model" },
  model_exhausted: { status: 422, meaning: "a scripted or recorded model has no answer to the request" },
  server_failed: {
    status: 502,
    meaning: "a server could not be reached, failed, answered too late, or sent an answer that is invalid or too large",
  },
  missing_dependency: { status: 500, meaning: "an optional package is not installed; the message says which" },
  not_found: { status: 404, meaning: "no route matches the path of the request, or there is no such split or task" },
  method_not_allowed: {
    status: 405,
    meaning: "the path does not support this method; the `Allow` header lists the supported ones",
  },
  invalid_request: {
    status: 400,
    meaning: "the request is not valid HTTP, or its path or query is not percent-encoded correctly",
  },
  invalid_json: { status: 400, meaning: "the body is not JSON in UTF-8, or is nested too deeply" },
  unauthorized: {
    status: 401,
    meaning: "the path requires a bearer token, and the token of the request is missing or wrong",
  },
  not_local: {
    status: 403,
    meaning:
      "a server without a token accepts requests only for localhost or an IP address, and the request named another host",
  },
  foreign_origin: {
    status: 403,
    meaning: "the request comes from a web page of a site that the server does not allow (`--allow-origin`)",
  },
  foreign_user: {
    status: 403,
    meaning: "the request's token is for one user, and the request names another user or affects other users",
  },
  request_timeout: { status: 408, meaning: "the request did not arrive in time; nothing was changed" },
  body_too_large: { status: 413, meaning: "the body is larger than the server accepts; nothing was changed" },
  unsupported_media_type: { status: 415, meaning: "the body is not plain JSON; nothing was changed" },
  headers_too_large: { status: 431, meaning: "the headers are larger than the server accepts; nothing was changed" },
  internal: { status: 500, meaning: "an unexpected failure, which is a bug; the server's log has the details" },
  too_busy: {
    status: 503,
    meaning: "the server is handling its maximum number of requests; nothing was changed, retry",
  },
  server_stopping: {
    status: 503,
    meaning: "the server is shutting down; another server can continue from the same store",
  },
} as const satisfies Record<string, { status: number; meaning: string }>;

export type ErrorCode = keyof typeof errorTable;

/**
 * The codes that a model reads as a tool's answer: its own mistakes, and the tool's failures. Every other code is an
 * infrastructure failure, and a rollout with such a failure is not scored.
 */
const forModels: ReadonlySet<string> = new Set<ErrorCode>([
  "invalid_input",
  "unknown_tool",
  "tool_failed",
  "tool_timeout",
  "state_invalid",
  "not_json",
  "state_conflict",
  // For a model that used the same id for two calls in one answer.
  "call_conflict",
]);

/** Returns whether a code is meant for the model to read, and so is part of its episode. */
export const isForModel = (code: string): boolean => forModels.has(code);

// A registered symbol, so that two installed copies of the package recognise each other's errors.
const brand = Symbol.for("holdfast.error");

/**
 * The error that Holdfast throws.
 *
 * @example
 * try { await sessions.call(id, "buy", { item: 3 }); }
 * catch (error) { if (isHoldfastError(error) && error.code === "session_closed") startOver(); }
 */
export class HoldfastError extends Error {
  override readonly name = "HoldfastError";
  readonly code: ErrorCode;
  readonly detail: Record<string, unknown>;
  readonly [brand] = true;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; detail?: Record<string, unknown> } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.detail = options.detail ?? {};
  }

  get status(): number {
    return errorTable[this.code].status;
  }

  toJSON(): { error: { code: ErrorCode; message: string; detail: Record<string, unknown> } } {
    return { error: { code: this.code, message: this.message, detail: this.detail } };
  }
}

export const invalidOption = (message: string): HoldfastError => new HoldfastError("invalid_option", message);

export const cannotLoad = (message: string, cause?: unknown): HoldfastError =>
  new HoldfastError("cannot_load", message, { cause });

/**
 * Returns whether a value is a HoldfastError, even one from a different copy of the package.
 *
 * @example
 * if (isHoldfastError(error) && error.code === "session_closed") startOver();
 */
export function isHoldfastError(value: unknown): value is HoldfastError {
  return typeof value === "object" && value !== null && brand in value;
}

/** Returns undefined instead of an error with this code. */
export function unlessCoded(code: ErrorCode): (thrown: unknown) => undefined {
  return (thrown) => {
    if (!isHoldfastError(thrown) || thrown.code !== code) throw thrown;
  };
}

/**
 * Creates the error that a tool throws to refuse a call on purpose. The model reads the message, and the state does not
 * change. Any other error is reported as a bug in the tool's code.
 *
 * @example
 * if (item.stock === 0) throw refuse(`${item.name} is out of stock`);
 */
export const refuse = (message: string): HoldfastError => new HoldfastError("tool_failed", message);

/** Returns whether a tool refused on purpose. An error in its code has a different code, or a cause. */
export const isRefusal = (thrown: unknown): boolean =>
  isHoldfastError(thrown) && thrown.code === "tool_failed" && thrown.cause === undefined;

/** Returns the message of any thrown value. */
export function messageOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message || thrown.name;
  return typeof thrown === "string" ? thrown : "something that is not an Error was thrown";
}

/** Adds a code to an error from an author's code or a library. A refusal outside a tool counts as an error too. */
export function withCode(code: ErrorCode, what: string, cause: unknown): HoldfastError {
  if (isHoldfastError(cause) && !isRefusal(cause)) return cause;
  return new HoldfastError(code, `${what} failed: ${messageOf(cause)}`, { cause });
}

/** Runs an author's code or a library, and adds a code to its failure. */
export async function boundary<T>(code: ErrorCode, what: string, run: () => T | Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    throw withCode(code, what, cause);
  }
}
