// What the server said to something that it was asked, where it refused.
import type { Act } from "./use-act.ts";

export function Said({ act: { failure } }: { act: Act }) {
  return failure === undefined ? null : (
    <p class="bad acts-said" role="alert">
      {failure}
    </p>
  );
}
