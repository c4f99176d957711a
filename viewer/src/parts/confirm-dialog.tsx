// Asks for confirmation before an action that affects others.
import { useLayoutEffect, useRef } from "preact/hooks";
import { useAction } from "../data/use-action.ts";
import { RefusalNote } from "./refusal-note.tsx";

export interface ConfirmDialogProps {
  title: string;
  what: string;
  /** The label of the button. */
  action: string;
  act(): Promise<void>;
  /** Called when the dialog closes, with or without the action. */
  onEnd(): void;
}

export function ConfirmDialog({ title, what, action, act, onEnd }: ConfirmDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const asked = useAction();
  useLayoutEffect(() => dialog.current?.showModal(), []);
  // The dialog closes itself and returns the focus to the previous element.
  const close = (): void => dialog.current?.close();
  return (
    <dialog ref={dialog} aria-labelledby="ask-first" onClose={onEnd}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          asked.start(() => act().then(close));
        }}
      >
        <h2 id="ask-first">{title}</h2>
        <p>{what}</p>
        <RefusalNote act={asked} />
        <div class="row">
          <button class="primary" disabled={asked.isBusy}>
            {action}
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </dialog>
  );
}
