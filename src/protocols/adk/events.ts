// Translates a conversation's events into ADK's events. One event becomes at most one ADK event.
import type { PartialEvent } from "../../agent/invocation.ts";
import { isLimit } from "../../core/conversation.ts";
import { changed, topKey, type Delta } from "../../core/delta.ts";
import type { NumberedEvent } from "../../core/event.ts";
import { isObject, parseJson, type Json } from "../../core/json.ts";
import { isFunctionCall, toText, type Item } from "../../core/model.ts";
import type { AgentState } from "../../core/shared-state.ts";
import { toParts, type Part } from "./parts.ts";

export interface AdkEvent {
  id: string;
  invocationId: string;
  author: string;
  /** In seconds since 1970. */
  timestamp: number;
  content?: { role: "user" | "model"; parts: Part[] };
  actions: {
    stateDelta: { [key: string]: Json };
    artifactDelta: object;
    requestedAuthConfigs: object;
    transferToAgent?: string;
    escalate?: true;
  };
  longRunningToolIds: string[];
  partial?: true;
  branch?: string;
  usageMetadata?: { promptTokenCount: number; candidatesTokenCount: number; totalTokenCount: number };
  errorCode?: string;
  errorMessage?: string;
}

/** The id of an event. It is the same in streams, sessions and traces. */
export const eventId = (session: string, version: number): string => `${session}-${version}`;

export interface AdkEventsOptions {
  session: string;
  /** The state before the first event. */
  state: AgentState;
  /** Reads the current state. It is needed to report a change inside a value that several sessions share. */
  readState(): Promise<AgentState>;
  /** Returns the names of the tools that the client runs for an agent. ADK calls such tools long-running. */
  clientTools(agent: string): readonly { name: string }[];
}

/** Creates a translator for consecutive events of one session. */
export function createAdkEvents({ session, state: initial, readState, clientTools }: AdkEventsOptions) {
  /** The tools that came with the client's requests. */
  let offered: readonly { name: string }[] = [];
  let state: Json = initial as Json;
  /** The names of called tools, by call id. Results carry only the id. */
  const tools = new Map<string, string>();
  let pieces = 0;

  /** Returns the new value of each changed key. ADK has no removal, so a removed key has the value null. */
  async function stateDelta(own: Delta, shared: Delta): Promise<{ [key: string]: Json }> {
    state = changed(state, own);
    const values: [string, Json][] = own.map(({ path }) => {
      const key = topKey(path);
      return [key, (state as AgentState)[key] ?? null];
    });
    for (const operation of shared) {
      const key = topKey(operation.path);
      const isWhole = operation.path.lastIndexOf("/") === 0;
      if (!isWhole) values.push([key, ((await readState())[key] as Json | undefined) ?? null]);
      else values.push([key, operation.op === "remove" ? null : operation.value]);
    }
    return Object.fromEntries(values);
  }

  function responsePart(item: Item & { call_id: string; output: string | { type: string; text?: string }[] }): Part {
    const { call_id: id, output } = item;
    const parsed = parseJson(toText(output));
    const response = isObject(parsed) ? (parsed as { [key: string]: Json }) : { result: parsed ?? toText(output) };
    return { functionResponse: { id, name: tools.get(id) ?? "tool", response } };
  }

  function contentOf(event: NumberedEvent): AdkEvent["content"] {
    if (!("items" in event) || event.items === undefined || event.items.length === 0) return undefined;
    const isUser = event.type === "invocation.began" || event.type === "client.answered";
    const parts = event.items.flatMap((item): Part[] => {
      if (isFunctionCall(item)) tools.set(item.call_id, item.name);
      // The client's results are left out: a later event of the agent has them, as the agent's callbacks changed them.
      if (item.type === "function_call_output")
        return event.type === "client.answered" ? [] : [responsePart(item as never)];
      return toParts(item);
    });
    if (parts.length === 0) return undefined;
    return { role: isUser || event.type === "tools.answered" ? "user" : "model", parts };
  }

  return {
    /** Returns ADK's form of an event; undefined if ADK has no such event. Call it with every event, in order. */
    async add(event: NumberedEvent): Promise<AdkEvent | undefined> {
      const shared = "shared" in event ? (event.shared ?? []) : [];
      const delta = await stateDelta(event.delta ?? [], shared);
      const content = contentOf(event);
      const isTurn = "invocation" in event && !event.type.startsWith("turn.") && event.type !== "tools.started";
      if (!isTurn && event.type !== "session.updated") return undefined;
      const made: AdkEvent = {
        id: eventId(session, event.version),
        invocationId: "invocation" in event ? event.invocation : `p-${event.version}`,
        author: "path" in event ? event.agent : "user",
        timestamp: event.at / 1000,
        actions: { stateDelta: delta, artifactDelta: {}, requestedAuthConfigs: {} },
        longRunningToolIds: [],
      };
      if ("tools" in event && event.tools) offered = event.tools;
      if (event.type === "model.answered") {
        const names = new Set([...clientTools(event.agent), ...offered].map(({ name }) => name));
        const calls = event.items.filter(isFunctionCall).filter(({ name }) => names.has(name));
        made.longRunningToolIds = calls.map(({ call_id }) => call_id);
      }
      // The content of an agent used as a tool is left out, because it is only for the calling agent.
      const isInner = "path" in event && event.path.includes("#");
      if (content && !isInner) made.content = content;
      if ("branch" in event && event.branch !== undefined) made.branch = event.branch;
      if (event.type === "model.answered" && event.usage) {
        const { input_tokens, output_tokens, total_tokens } = event.usage;
        made.usageMetadata = {
          promptTokenCount: input_tokens,
          candidatesTokenCount: output_tokens,
          totalTokenCount: total_tokens,
        };
      }
      if (event.type === "tools.answered" && event.transfer !== undefined)
        made.actions.transferToAgent = event.transfer;
      if (event.type === "tools.answered" && event.escalate) made.actions.escalate = true;
      if (event.type === "agent.failed") {
        made.errorCode = event.error.code;
        made.errorMessage = event.error.message;
      }
      if (event.type === "agent.ended" && isLimit(event.outcome)) {
        made.errorCode = event.outcome;
        made.errorMessage = `the agent reached its limit of ${event.outcome}`;
      }
      const isEmpty = !made.content && made.errorCode === undefined && Object.keys(delta).length === 0;
      return isEmpty && made.actions.escalate === undefined ? undefined : made;
    },
    /** Returns the event for a piece of an answer in progress; undefined for a piece of a call's arguments. */
    partial({ invocation, agent, path, piece }: PartialEvent): AdkEvent | undefined {
      if (piece.type === "arguments" || path.includes("#")) return undefined;
      const part: Part = piece.type === "reasoning" ? { text: piece.text, thought: true } : { text: piece.text };
      return {
        id: `${session}-partial-${pieces++}`,
        invocationId: invocation,
        author: agent,
        timestamp: Date.now() / 1000,
        content: { role: "model", parts: [part] },
        actions: { stateDelta: {}, artifactDelta: {}, requestedAuthConfigs: {} },
        longRunningToolIds: [],
        partial: true,
      };
    },
  };
}
