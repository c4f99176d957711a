// Asks for the server's token when a request requires it.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { onTokenWanted } from "../data/server.ts";

export function TokenDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [pending, setPending] = useState<{ wrong: boolean; give(token: string): void }>();
  // Registered before the first request.
  useLayoutEffect(() => onTokenWanted((wrong) => new Promise((give) => setPending({ wrong, give }))), []);
  useLayoutEffect(() => {
    if (pending) dialog.current?.showModal();
    else dialog.current?.close();
  }, [pending]);
  return (
    <dialog ref={dialog} aria-labelledby="token-title" onCancel={(event) => event.preventDefault()}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const token = String(new FormData(event.currentTarget).get("token")).trim();
          if (token === "") return;
          pending?.give(token);
          setPending(undefined);
        }}
      >
        <h2 id="token-title">This server requires a token</h2>
        <p>
          {pending?.wrong ? "The token is wrong. " : ""}The command that started the server printed the token, or
          received it as --token.
        </p>
        <label>
          Token <input name="token" type="password" autocomplete="off" required />
        </label>
        <button class="primary">Continue</button>
      </form>
    </dialog>
  );
}
