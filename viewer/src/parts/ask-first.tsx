// Asks before something is done that others would notice.
import { useLayoutEffect, useRef } from "preact/hooks";
import { useAct } from "../data/use-act.ts";
import { Said } from "./said.tsx";

export interface AskFirstProps {
  title: string;
  what: string;
  /** On the button. */
  action: string;
  act(): Promise<void>;
  /** It was done, or not: there is nothing more to ask. */
  onEnd(): void;
}

export function AskFirst({ title, what, action, act, onEnd }: AskFirstProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const asked = useAct();
  useLayoutEffect(() => dialog.current?.showModal(), []);
  // By the dialog itself, which gives the focus back to where it was.
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
        <Said act={asked} />
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
