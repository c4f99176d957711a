// Answers in place of a model. It understands "add 2 milk", "remove milk" and nothing else.
import type { ModelRequest, ScriptedAnswer } from "holdfast";

export function script({ input }: ModelRequest): ScriptedAnswer {
  const last = input.at(-1);
  if (last?.type === "function_call_output") return `The tool says: ${String(last["output"])}`;
  const [, verb, count, item = ""] = /^(add|remove)(?: (\d+))? (\w+)/i.exec(String(last?.["content"])) ?? [];
  if (verb === undefined) return 'Say "add 2 milk" or "remove milk".';
  const isAdd = verb.toLowerCase() === "add";
  return {
    calls: [
      isAdd
        ? { name: "add_item", arguments: { item, count: Number(count ?? 1) } }
        : { name: "remove_item", arguments: { item } },
    ],
  };
}
