// createCaller(): calls a tool, in a session that the client may not have opened yet.
import { HoldfastError, isHoldfastError, unlessCoded } from "../../core/errors.ts";
import type { Answer, CallOptions, Sessions } from "../../core/sessions.ts";

export type CallTool = (session: string, tool: string, input: unknown, options?: CallOptions) => Promise<Answer>;

/**
 * Returns a function that calls a tool. If the environment needs no seed, the first call opens the session. Otherwise,
 * a call of an unseeded session is refused with `session_unseeded`.
 */
export function createCaller(sessions: Sessions): CallTool {
  const { environment } = sessions;
  const needsSeed = environment.unseeded === "guard" && environment.state !== undefined;
  return async (session, tool, input, options = {}) => {
    const call = (): Promise<Answer> => sessions.call(session, tool, input ?? {}, { ...options, seeded: needsSeed });
    try {
      return await call();
    } catch (thrown) {
      const isMissing = isHoldfastError(thrown) && thrown.code === "session_not_found";
      const message = "there is no session with an episode; start an episode first";
      if (isMissing && needsSeed) throw new HoldfastError("session_not_found", message);
      if (!isMissing || !environment.definitions.has(tool)) throw thrown;
    }
    await sessions.open({ session }).catch(unlessCoded("session_exists"));
    return call();
  };
}
