// runEnvironmentChecks(): runs the environment cases, and with a solution the solution cases.
import { AssertionError } from "node:assert/strict";
import type { AnyEnvironment } from "../core/environment.ts";
import { isHoldfastError, messageOf } from "../core/errors.ts";
import { summarizeThrown, type Thrown } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import { createSessions } from "../session/sessions.ts";
import { describeThrown } from "../session/thrown.ts";
import { memoryStore } from "../stores/memory.ts";
import { environmentCases, solutionCases, type Solution } from "./environments.ts";
import type { Checked } from "./gym-checks.ts";

export interface EnvironmentToCheck {
  environment: AnyEnvironment;
  tasks: Json[];
  solution: Solution | undefined;
  /** Receives every error thrown by the environment's code. */
  onError(error: Thrown): void;
}

/** Adds the author's line to an error that the solution threw. */
function explainSolution(thrown: unknown): string {
  if (isHoldfastError(thrown) || thrown instanceof AssertionError) return messageOf(thrown);
  return summarizeThrown(describeThrown(thrown, "the solution"));
}

export async function runEnvironmentChecks(checked: EnvironmentToCheck): Promise<Checked[]> {
  const { environment, tasks, solution, onError } = checked;
  const open = () => createSessions({ environment, store: memoryStore(), onError });
  const results: Checked[] = [];
  const attempt = async (what: string, run: () => Promise<void>, explain = messageOf): Promise<void> => {
    const why = "Every environment must pass this check; see docs/promises.md.";
    await run().then(
      () => results.push({ what, result: "pass", why }),
      (thrown: unknown) => results.push({ what, result: "fail", message: explain(thrown), why }),
    );
  };
  for (const { name, run } of environmentCases) await attempt(name, () => run({ open, tasks }));
  for (const { name, run } of solutionCases) {
    if (solution) await attempt(name, () => run({ open, tasks, solution }), explainSolution);
    else
      results.push({ what: name, result: "skipped", message: "there is no solution next to the environment", why: "" });
  }
  return results;
}
