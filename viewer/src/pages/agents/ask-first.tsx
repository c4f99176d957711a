// Asks before something is done that others would notice.
import { useEffect, useRef } from "preact/hooks";
import { Failure } from "../../parts/notice.tsx";
import { useAct } from "../episode/use-act.ts";

export interface AskFirstProps {
  title: string;
  what: string;
  /** On the button. */
  action: string;
  act(): Promise<void>;
  close(): void;
}

export function AskFirst({ title, what, action, act, close }: AskFirstProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const { isBusy, failure, start } = useAct();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="ask-first" onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          start(() => act().then(close));
        }}
      >
        <h2 id="ask-first">{title}</h2>
        <p>{what}</p>
        {failure !== undefined && <Failure message={failure} />}
        <div class="row">
          <button class="primary" disabled={isBusy}>
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
