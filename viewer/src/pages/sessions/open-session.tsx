// A form that opens a session with a task written by the user.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Json } from "../../../../src/core/json.ts";
import type { EnvironmentAbout } from "../../../../src/rollout/collection-view.ts";
import { linkTo } from "../../address.ts";
import { ask, post } from "../../data/server.ts";
import { messageOf } from "../../data/source.ts";
import { useAction } from "../../data/use-action.ts";
import { useLoaded } from "../../data/use-loaded.ts";
import { Await } from "../../parts/notice.tsx";
import { RefusalNote } from "../../parts/refusal-note.tsx";
import { sampleTask } from "./task-sample.ts";

interface OpenSessionProps {
  environment: EnvironmentAbout;
  onEnd(): void;
}

export function OpenSession({ environment: { at, name }, onEnd }: OpenSessionProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const schema = useLoaded((signal) => ask<{ task: Json }>(`${at}/v1/environment`, { signal }), [at]);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const close = (): void => dialog.current?.close();
  return (
    <dialog ref={dialog} class="sessions-new" aria-labelledby="sessions-new" onClose={onEnd}>
      <h2 id="sessions-new">Open a session of {name}</h2>
      <Await loaded={schema}>{({ task }) => <Form at={at} environment={name} task={task} close={close} />}</Await>
    </dialog>
  );
}

function Form({ at, environment, task, close }: { at: string; environment: string; task: Json; close(): void }) {
  const [text, setText] = useState(() => JSON.stringify(sampleTask(task), null, 2));
  const act = useAction();
  const open = async (signal: AbortSignal): Promise<void> => {
    const given = text.trim() === "" ? {} : { task: parsed(text) };
    const { session } = await post<{ session: string }>(`${at}/v1/sessions`, given, signal);
    location.hash = linkTo(["sessions", environment, session]);
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        act.start(open);
      }}
    >
      <label>
        Task as JSON. Without a task the session is opened but not seeded.
        <textarea
          rows={Math.min(16, Math.max(5, text.split("\n").length + 1))}
          spellcheck={false}
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </label>
      <details>
        <summary>Task schema</summary>
        <pre>{JSON.stringify(task, null, 2)}</pre>
      </details>
      <RefusalNote act={act} />
      <div class="row">
        <button class="primary" disabled={act.isBusy}>
          Open
        </button>
        <button type="button" onClick={close}>
          Cancel
        </button>
      </div>
    </form>
  );
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (thrown) {
    throw new Error(`The task is not JSON: ${messageOf(thrown)}`, { cause: thrown });
  }
}
