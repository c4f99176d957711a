// Writes a task's progress as A2A stream responses: pieces of answers as they come, and changes of its status.
import type { RunEvent } from "../../agent/invocation.ts";
import type { NumberedEvent } from "../../core/event.ts";
import type { TaskReader } from "./task.ts";

export { isStreamed } from "../http/is-streamed.ts";

/** Creates a writer for a task's updates. */
export function createTaskStream(turn: TaskReader) {
  const { task } = turn;
  /** The newest piece of the answer in progress. It is held back, because an answer's last piece must be marked. */
  let held = "";
  let sent = "";

  function artifact(number: number, text: string, append: boolean, lastChunk: boolean): object {
    const { id, contextId } = task;
    const made = { artifactId: `answer-${number}`, parts: [{ text }] };
    return { artifactUpdate: { taskId: id, contextId, artifact: made, append, lastChunk } };
  }

  /** Applies a change to the task. Returns a status update if the task's state changed. */
  function changed(change: () => void): object[] {
    const before = task.status.state;
    change();
    const { id: taskId, contextId, status } = task;
    return status.state === before ? [] : [{ statusUpdate: { taskId, contextId, status } }];
  }

  return {
    task,
    /** Returns the task as it is now. */
    begin: (): object => ({ task: { ...task, history: [...task.history], artifacts: [...task.artifacts] } }),
    /** Returns the update for a run that ended in order to wait for the client's results. */
    wait: (): object[] => changed(turn.wait),
    /** Returns the updates for an event. */
    add(event: RunEvent | NumberedEvent): object[] {
      if (event.type === "partial") {
        if (event.piece.type !== "text") return [];
        const before = held;
        held = event.piece.text;
        if (before === "") return [];
        const isFirst = sent === "";
        sent += before;
        return [artifact(task.artifacts.length + 1, before, !isFirst, false)];
      }
      const { length } = task.artifacts;
      const status = changed(() => turn.add(event));
      const out: object[] = [];
      const made = task.artifacts[length];
      if (made) {
        const whole = made.parts[0]?.text ?? "";
        // If a callback replaced the streamed answer, the whole answer is sent again.
        const isSame = sent + held === whole && sent !== "";
        out.push(artifact(length + 1, isSame ? held : whole, isSame, true));
        held = sent = "";
      }
      return [...out, ...status];
    },
  };
}
