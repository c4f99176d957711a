// The calls that win an episode of shop: the actions of the task, each previewed first and then confirmed.
import type { Action } from "./orders.ts";

interface Task {
  actions: Action[];
  outcome: string;
  tell: string[];
}

export default function* solution({ actions, outcome, tell }: Task) {
  yield { tool: "get_policy", input: {} };
  for (const { tool, input } of actions) {
    yield { tool: "get_order", input: { order_id: input.order_id } };
    yield { tool, input: { ...input, confirm: false } };
    yield { tool, input };
  }
  yield { tool: "close_case", input: { outcome, message: [`Your request was ${outcome}.`, ...tell].join(" ") } };
}
