// What the server said to something that it was asked, where it refused.
import { plain } from "./format.ts";

export function Said({ act: { failure } }: { act: { failure: string | undefined } }) {
  return failure === undefined ? null : (
    <p class="bad said" role="alert">
      {plain(failure)}
    </p>
  );
}
