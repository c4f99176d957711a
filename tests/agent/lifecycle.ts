// When writes become durable, as data: the tests run it, and docs/agents.md shows it as its table.
import type { NumberedEvent } from "holdfast";

export type Hook =
  | "stateDelta"
  | "beforeAgent"
  | "beforeModel"
  | "onModelError"
  | "afterModel"
  | "beforeTool"
  | "tool"
  | "onToolError"
  | "afterTool"
  | "outputKey"
  | "afterAgent";

export interface Row {
  /** The writing hook. Each hook writes a key of its own name, in each scope. */
  hook: Hook;
  /** The keys that its context shows after its own write. */
  sees: Hook[];
  /** The keys that a fresh read of the store shows at that time. */
  stored: Hook[];
  /** The event that its key is stored with. */
  event: NumberedEvent["type"];
  /** A description of that event. */
  about: string;
  /** The event that reports its error; "none" if the run does not start. Absent if nothing can throw. */
  failure?: "agent.failed" | "tools.answered" | "none";
  /** The keys that are dropped then. */
  drops: Hook[];
}

const told: Hook[] = ["stateDelta"];
const begun: Hook[] = [...told, "beforeAgent"];
const answered: Hook[] = [...begun, "beforeModel", "onModelError", "afterModel"];
const worked: Hook[] = [...answered, "beforeTool", "tool", "onToolError", "afterTool"];

/** In the order of a turn with one tool call and an answer. */
export const lifecycle: Row[] = [
  {
    hook: "stateDelta",
    sees: told,
    stored: [],
    event: "invocation.began",
    about: "the user's message",
    failure: "none",
    drops: told,
  },
  {
    hook: "beforeAgent",
    sees: begun,
    stored: told,
    event: "agent.began",
    about: "after all `beforeAgent`, before the first model call",
    failure: "agent.failed",
    drops: ["beforeAgent"],
  },
  {
    hook: "beforeModel",
    sees: [...begun, "beforeModel"],
    stored: begun,
    event: "model.answered",
    about: "the whole answer, after `afterModel`",
    failure: "agent.failed",
    drops: ["beforeModel"],
  },
  {
    hook: "onModelError",
    sees: [...begun, "beforeModel", "onModelError"],
    stored: begun,
    event: "model.answered",
    about: "the same",
    failure: "agent.failed",
    drops: ["beforeModel", "onModelError"],
  },
  {
    hook: "afterModel",
    sees: answered,
    stored: begun,
    event: "model.answered",
    about: "the same",
    failure: "agent.failed",
    drops: ["beforeModel", "onModelError", "afterModel"],
  },
  {
    hook: "beforeTool",
    sees: [...answered, "beforeTool"],
    stored: answered,
    event: "tools.answered",
    about: "the results of all calls of the answer",
    failure: "tools.answered",
    drops: ["beforeTool"],
  },
  {
    hook: "tool",
    sees: [...answered, "beforeTool", "tool"],
    stored: answered,
    event: "tools.answered",
    about: "the same",
    failure: "tools.answered",
    drops: ["beforeTool", "tool"],
  },
  {
    hook: "onToolError",
    sees: [...answered, "beforeTool", "onToolError"],
    stored: answered,
    event: "tools.answered",
    about: "the same",
    failure: "tools.answered",
    drops: ["beforeTool", "tool", "onToolError"],
  },
  {
    hook: "afterTool",
    sees: worked,
    stored: answered,
    event: "tools.answered",
    about: "the same",
    failure: "tools.answered",
    drops: ["beforeTool", "tool", "onToolError", "afterTool"],
  },
  {
    hook: "outputKey",
    sees: [...worked, "outputKey"],
    stored: worked,
    event: "model.answered",
    about: "the answer whose text it keeps",
    drops: [],
  },
  {
    hook: "afterAgent",
    sees: [...worked, "outputKey", "afterAgent"],
    stored: [...worked, "outputKey"],
    event: "agent.ended",
    about: "after all `afterAgent`",
    failure: "agent.failed",
    drops: ["afterAgent"],
  },
];

/** The failures of a turn, and the hooks that therefore store nothing. */
export const turns: { name: string; without: Hook[] }[] = [
  { name: "all goes well", without: ["onModelError", "onToolError"] },
  { name: "the model fails at first", without: ["onToolError"] },
  { name: "the tool fails", without: ["onModelError", "tool"] },
];

const code = (words: string[]): string => words.map((word) => `\`${word}\``).join(", ");

/** The table of docs/agents.md. */
export function lifecycleTable(): string[][] {
  return lifecycle.map(({ hook, stored, event, about, failure, drops }) => [
    `\`${hook}\``,
    `\`${event}\`: ${about}`,
    shortly(stored),
    failureOf(failure, drops),
  ]);
}

function failureOf(failure: Row["failure"], drops: Hook[]): string {
  if (failure === undefined) return "";
  return failure === "none" ? "the run does not begin" : `\`${failure}\`, without ${code(drops)}`;
}

/** Shortens the list of keys: each row repeats those of the row above. */
function shortly(stored: Hook[]): string {
  const last = stored.at(-1);
  return last === undefined ? "nothing of this turn" : `all up to \`${last}\``;
}
