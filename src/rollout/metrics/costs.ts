// What rollouts cost together: tokens and time.
import type { Outcome } from "./outcome.ts";
import { finite } from "./statistics.ts";

export interface Tally {
  add(value: number | undefined): void;
  /** null where nothing was known, or where it is more than a number can be. */
  total(): number | null;
}

export type Costs = { [cost in "input" | "output" | "tokens" | "seconds"]: Tally };

export function createCosts(): Costs {
  return { input: createTally(), output: createTally(), tokens: createTally(), seconds: createTally() };
}

export function addCosts(costs: Costs, { input, output, tokens, seconds }: Outcome): void {
  costs.input.add(input);
  costs.output.add(output);
  costs.tokens.add(tokens);
  costs.seconds.add(seconds);
}

function createTally(): Tally {
  let sum: number | undefined;
  return {
    add(value) {
      if (value !== undefined) sum = (sum ?? 0) + value;
    },
    total: () => finite(sum),
  };
}
