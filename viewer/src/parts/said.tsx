// Shows the server's message when it refused a request.
import { plain } from "./format.ts";

export function Said({ act: { failure } }: { act: { failure: string | undefined } }) {
  return failure === undefined ? null : (
    <p class="bad said" role="alert">
      {plain(failure)}
    </p>
  );
}
