// Sends one POST to a model's server; its faults tell whether another attempt may help.
import { exchange, ExchangeError, type Answer, type ExchangeRequest } from "../../io/exchange.ts";
import { cancelled, Fault } from "./fault.ts";

export type Post = Omit<ExchangeRequest, "method">;

/** Sends a request and passes its answer to `read`. */
export async function post<T>(request: Post, read: (answer: Answer) => Promise<T>): Promise<T> {
  try {
    return await exchange(request, read);
  } catch (thrown) {
    if (thrown instanceof Fault) throw thrown;
    if (request.signal?.aborted) throw cancelled(request.signal);
    if (!(thrown instanceof ExchangeError)) throw thrown;
    const code = thrown.kind === "timeout" ? "model_timeout" : "model_failed";
    throw new Fault(thrown.message, { code, again: thrown.kind !== "too_large" });
  }
}
