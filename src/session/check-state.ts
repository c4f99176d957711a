// Refuses calls that make an episode's state invalid for its schema.
import { after } from "../core/after.ts";
import { changed } from "../core/delta.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import type { Json } from "../core/json.ts";
import { check, type Checked } from "../core/schema.ts";
import { refusal, type Finished } from "./outcome.ts";

/**
 * The largest state that is checked by default, in characters of JSON. The check reads the whole state after each
 * change.
 */
const mostChecked = 64 * 1024;

/**
 * Returns a call's result, or a refusal if the state after the call is invalid. The schema only checks: its defaults
 * and transforms do not change the stored state. If the state was already invalid before the call, the result is
 * accepted. The schema may transform its input, or the session may be older than the check. `size` is the state's
 * approximate size.
 */
export function checkState(
  environment: AnyEnvironment,
  tool: string,
  state: Json,
  finished: Finished,
  size = 0,
): Finished | Promise<Finished> {
  const { delta } = finished;
  const { checkState: isChecked = size <= mostChecked } = environment;
  if (!delta || !isChecked || environment.state === undefined) return finished;
  return after(check(environment.state, changed(state, delta)), (now: Checked) => {
    if (now.ok) return finished;
    return after(check(environment.state, state), (before: Checked) => {
      if (!before.ok) return finished;
      const isExternal = environment.definitions.get(tool)?.kind === "external";
      const failed = isExternal
        ? `${tool} has run, but its change of the state was invalid and was not kept; do not repeat it for the same effect`
        : `${tool} failed: it left an invalid state; nothing was changed`;
      // The model must not learn the names of hidden keys.
      const outcome = refusal("state_invalid", failed);
      const thrown = { error: `state_invalid: ${now.message}`, place: tool };
      return { outcome, thrown, ...(finished.log && { log: finished.log }) };
    });
  });
}
