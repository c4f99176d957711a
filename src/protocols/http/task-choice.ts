// createTaskChoice(): the task that a client chooses by its split and index or by its fields, and the task's prompt.
import { HoldfastError, isHoldfastError } from "../../core/errors.ts";
import type { Labels } from "../../core/event.ts";
import { isObject, type Json } from "../../core/json.ts";
import type { Item } from "../../core/model.ts";
import { inputItems, pickTask, readRandomSeed, type TaskRow } from "../../core/rollout.ts";
import type { TaskFiles } from "../../rollout/task-files.ts";
import { defaultSplit } from "../../rollout/task-files.ts";

/** A task, with the options to open its episode. */
export interface ChosenTask {
  task: TaskRow;
  /** Labels that identify the row, so that any process finds its prompt again. */
  labels: Labels;
  randomSeed: number | undefined;
  /** The messages that the model starts with; empty if the row has none. */
  prompt: Item[];
}

export interface TaskChoice {
  /** Chooses a task by `split` and `index`, if the fields have them. The other fields are then labels. */
  choose(fields: TaskRow): Promise<ChosenTask>;
  /** Finds the prompt of an episode by its labels; empty if the client gave the task's fields. */
  promptOf(labels: Labels): Promise<Item[]>;
}

export function createTaskChoice(tasks: TaskFiles): TaskChoice {
  const chosen = (row: TaskRow, labels: Labels): ChosenTask => {
    const items = inputItems(row);
    const prompt = typeof items === "string" ? [] : items;
    return { task: pickTask(row), labels, randomSeed: readRandomSeed(row), prompt };
  };
  return {
    async choose(fields) {
      // Clients written in Python send null for a missing field.
      const { split = null, index = null, ...labels } = fields;
      if (split === null && index === null) return chosen(labels, {});
      const name = split ?? defaultSplit;
      if (typeof name !== "string" || typeof index !== "number") {
        throw new HoldfastError("invalid_task", "choose a task with `split`, a string, and `index`, a number from 0");
      }
      return chosen(await tasks.row(name, index), { ...labels, split: name, index });
    },
    async promptOf({ split, index }) {
      if (typeof split !== "string" || typeof index !== "number") return [];
      try {
        return chosen(await tasks.row(split, index), {}).prompt;
      } catch (thrown) {
        // The row was not found, because the file has changed since the episode began.
        if (isHoldfastError(thrown)) return [];
        throw thrown;
      }
    },
  };
}

/** Returns the texts of a prompt, message by message. */
export function promptTexts(prompt: readonly Item[]): string[] {
  return prompt.flatMap((item) => ("content" in item ? textsIn(item.content as Json) : []));
}

function textsIn(content: Json): string[] {
  if (typeof content === "string") return [content];
  if (!Array.isArray(content)) return [];
  return content.flatMap((part) => (isObject(part) && typeof part["text"] === "string" ? [part["text"]] : []));
}
