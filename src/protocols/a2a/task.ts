// Translates a turn of a conversation into an A2A task: its state, its answers and the message that began it.
import type { EventOf, NumberedEvent } from "../../core/event.ts";
import {
  answerText,
  isMessage,
  toText,
  type Content,
  type FunctionCall,
  type FunctionCallOutput,
  type Item,
} from "../../core/model.ts";
import type { Conversations } from "../../core/sessions.ts";
import { parseDataUrl } from "../http/user-message.ts";

export interface Part {
  text?: string;
  url?: string;
  raw?: string;
  filename?: string;
  mediaType?: string;
  data?: object;
}

export interface Message {
  messageId: string;
  role: "ROLE_USER" | "ROLE_AGENT";
  parts: Part[];
  contextId: string;
  taskId: string;
}

export interface Artifact {
  artifactId: string;
  parts: Part[];
}

export interface Status {
  state: State;
  timestamp: string;
  message?: Message;
}

export interface Task {
  id: string;
  contextId: string;
  status: Status;
  artifacts: Artifact[];
  history: Message[];
  metadata?: { outcome: string };
}

export type State = `TASK_STATE_${"SUBMITTED" | "WORKING" | "INPUT_REQUIRED" | "COMPLETED" | "FAILED" | "CANCELED"}`;

export const isTerminal = ({ status: { state } }: Task): boolean => /(?:COMPLETED|FAILED|CANCELED)$/.test(state);

/** Returns whether a task waits for results from the client. */
export const isWaiting = ({ status: { state } }: Task): boolean => state === "TASK_STATE_INPUT_REQUIRED";

type Began = EventOf<"invocation.began"> & { version: number };

/** A task's id names its session and the version of the event that began its turn, so any server can find it. */
export const taskId = (session: string, began: number): string => `${session}.${began}`;

export function parseTaskId(id: string): { session: string; began: number } | undefined {
  const [, session, began] = /^(.+)\.([1-9]\d{0,14})$/s.exec(id) ?? [];
  return session === undefined ? undefined : { session, began: Number(began) };
}

/** Creates a task from a turn's first event. Pass all later events of the log to `add`, in order. */
export function createTask(session: string, began: Began) {
  const id = taskId(session, began.version);
  const about = { contextId: session, taskId: id };
  const asked: Message = {
    messageId: began.call ?? began.invocation,
    role: "ROLE_USER",
    parts: began.items.flatMap(toParts),
    ...about,
  };
  const status = (state: Status["state"], at: number): Status => ({
    state: state,
    timestamp: new Date(at).toISOString(),
  });
  const said = (state: Status["state"], { at, version }: { at: number; version: number }, parts: Part[]): Status => ({
    ...status(state, at),
    message: { messageId: `${id}-${version}`, role: "ROLE_AGENT", parts, ...about },
  });
  /** The calls whose results the task waits for. */
  let open: FunctionCall[] = [];
  let newest = began as { at: number; version: number };
  /** For each message with results, by its id: the ids of the calls that were open when it arrived. */
  const answered = new Map<string, string[]>();

  /** Sets the status to waiting, with the calls that the task waits for. */
  function wait(): void {
    task.status = said(
      "TASK_STATE_INPUT_REQUIRED",
      newest,
      open.map((call) => ({ data: { ...call } })),
    );
  }

  const task: Task = {
    id,
    contextId: session,
    status: status("TASK_STATE_WORKING", began.at),
    artifacts: [],
    history: [asked],
  };
  let isOver = false;
  return {
    task,
    invocation: began.invocation,
    /** Whether no later event can change the task. */
    isOver: () => isOver,
    wait,
    /** Returns the ids of the calls that were open when a message with results arrived; undefined for any other id. */
    answeredBy: (messageId: string): string[] | undefined => answered.get(messageId),
    add(event: NumberedEvent): void {
      if (isOver) return;
      if (!("invocation" in event) || event.invocation !== began.invocation) {
        const isUndone = event.type === "session.rewound" && event.to < began.version;
        // A new turn, or a rewind to before this turn, ends the task. An unfinished task is then cancelled.
        if (event.type !== "invocation.began" && !isUndone) return;
        isOver = true;
        if (!isTerminal(task)) task.status = status("TASK_STATE_CANCELED", event.at);
        return;
      }
      newest = event;
      const isOuter = !("path" in event) || (event.branch === undefined && !event.path.includes("#"));
      const text = "path" in event && !event.path.includes("#") ? answerText(event.items ?? []) : "";
      if (text !== "") task.artifacts.push({ artifactId: `answer-${task.artifacts.length + 1}`, parts: [{ text }] });
      switch (event.type) {
        case "agent.ended":
          if (!event.last) return;
          isOver = true;
          task.status = status("TASK_STATE_COMPLETED", event.at);
          task.metadata = { outcome: event.outcome };
          return;
        case "agent.failed":
          if (!isOuter) return;
          task.status = said("TASK_STATE_FAILED", event, [{ text: `${event.error.code}: ${event.error.message}` }]);
          return;
        case "tools.answered":
          open = [...open, ...(event.waiting ?? [])];
          return;
        case "client.answered": {
          const messageId = event.call ?? `${id}-${event.version}`;
          answered.set(
            messageId,
            open.map(({ call_id }) => call_id),
          );
          open = [];
          task.history.push({ messageId, role: "ROLE_USER", parts: event.items.flatMap(toParts), ...about });
          task.status = status("TASK_STATE_WORKING", event.at);
          return;
        }
        case "turn.released":
          if (event.reason === "waiting") wait();
          if (event.reason === "cancelled") task.status = status("TASK_STATE_CANCELED", event.at);
          // The server stopped during the turn. If the client sends its message again, the turn continues.
          if (event.reason === "stopped") task.status = status("TASK_STATE_SUBMITTED", event.at);
          return;
        case "turn.taken":
          task.status = status("TASK_STATE_WORKING", event.at);
      }
    },
  };
}

export type TaskReader = ReturnType<typeof createTask>;

/**
 * Reads a task from its session's log, up to a version; undefined if there is none. `after` is the version of the last
 * event read.
 */
export async function readTask(
  sessions: Conversations,
  id: string,
  upTo = Infinity,
): Promise<{ turn: TaskReader; task: Task; after: number } | undefined> {
  const place = parseTaskId(id);
  if (!place || !(await sessions.peek(place.session))) return undefined;
  let found: TaskReader | undefined;
  let after = place.began;
  for await (const event of sessions.events(place.session, { after: place.began - 1 })) {
    if (event.version > upTo) break;
    if (!found) {
      if (event.type !== "invocation.began") return undefined;
      found = createTask(place.session, event);
      continue;
    }
    found.add(event);
    after = event.version;
    if (found.isOver()) break;
  }
  return found && { turn: found, task: found.task, after };
}

function toParts(item: Item): Part[] {
  if (item.type === "function_call_output") {
    const { type, call_id, output } = item as FunctionCallOutput;
    return [{ data: { type, call_id, output: toText(output) } }];
  }
  if (!isMessage(item)) return [];
  const { content } = item;
  return typeof content === "string" ? [{ text: content }] : content.map(toPart);
}

function toPart(part: Content): Part {
  const { image_url: image, file_data: data, file_url: file, filename } = part;
  const url = [image, data, file].find((each) => typeof each === "string") as string | undefined;
  if (url === undefined) return { text: toText([part]) };
  const file64 = parseDataUrl(url);
  const name = typeof filename === "string" ? { filename } : {};
  return file64 ? { raw: file64.data, mediaType: file64.type, ...name } : { url, ...name };
}
