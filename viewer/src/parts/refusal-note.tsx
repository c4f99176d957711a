// Shows the server's message when it refused a request.
import { showInvisible } from "./format.ts";

export function RefusalNote({ act: { failure } }: { act: { failure: string | undefined } }) {
  return failure === undefined ? null : (
    <p class="bad said" role="alert">
      {showInvisible(failure)}
    </p>
  );
}
