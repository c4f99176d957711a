// A conversation with an agent: runs turns, and shows their events.
import { run, type RunOptions } from "../../agent/run.ts";
import type { Agent } from "../../core/agent.ts";
import { isLimit } from "../../core/conversation.ts";
import { isHoldfastError } from "../../core/errors.ts";
import type { Conversations } from "../../core/sessions.ts";
import { telemetry } from "../../telemetry/process.ts";
import type { Printer } from "./printer.ts";

export interface ConversationOptions {
  agent: Agent;
  sessions: Conversations;
  printer: Printer;
  stream: boolean;
  error(text: string): void;
}

/** How a turn ended. The error of a failed turn has already been printed. */
export type Turn = "done" | "failed" | "cancelled";

export interface Conversation {
  /** Sends a message to the agent. Without one, continues an interrupted turn. */
  say(message: string | undefined, signal: AbortSignal): Promise<Turn>;
}

export function createConversation(session: string, options: ConversationOptions): Conversation {
  const { agent, sessions, printer, stream, error } = options;

  async function answer(given: RunOptions): Promise<Turn> {
    const traces = await telemetry();
    const running = run(traces?.agent(agent) ?? agent, { ...given, throwOnFailure: false });
    const events = traces?.run(agent.name, running) ?? running;
    for (;;) {
      const next = await events.next();
      if (!next.done) {
        printer.show(next.value);
        continue;
      }
      const { outcome, calls = [] } = next.value;
      if (outcome === "failed") return "failed";
      if (outcome === "waiting") {
        const names = calls.map(({ name, call_id }) => `${name} (${call_id})`).join(", ");
        error(`[${agent.name}] waits for results that a client must send: ${names}\n`);
      }
      if (isLimit(outcome)) error(`[${agent.name}] stopped: it reached the limit \`${outcome}\`\n`);
      return "done";
    }
  }

  return {
    async say(message, signal) {
      const asked = { sessions, session, message, signal, stream };
      try {
        return await answer({ ...asked, busy: "refuse" }).catch((thrown: unknown) => {
          error(`${waitingFor(session, thrown)}\n`);
          return answer(asked);
        });
      } catch (thrown) {
        if (!isHoldfastError(thrown)) throw thrown;
        printer.finish();
        if (thrown.code === "run_cancelled") return "cancelled";
        error(`[${agent.name}] error: ${thrown.code}: ${thrown.message}\n`);
        return "failed";
      } finally {
        printer.finish();
      }
    },
  };
}

/** Explains that the turn waits for a busy session. Throws any other error. */
function waitingFor(session: string, thrown: unknown): string {
  if (!isHoldfastError(thrown) || thrown.code !== "session_busy") throw thrown;
  const { lapsesIn } = thrown.detail;
  const atMost =
    typeof lapsesIn === "number"
      ? `. If that process has died, this takes at most ${Math.ceil(lapsesIn / 1000)} s.`
      : "";
  return `Waiting: another process is running a turn in session ${session}${atMost}`;
}
