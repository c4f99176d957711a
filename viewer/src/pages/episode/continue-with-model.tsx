// Lets a model continue the session.
import { useState } from "preact/hooks";
import type { Item } from "../../../../src/core/model.ts";
import type { Json } from "../../../../src/core/json.ts";
import { post } from "../../data/server.ts";
import { useAction } from "../../data/use-action.ts";
import { count } from "../../parts/format.ts";
import { RefusalNote } from "../../parts/refusal-note.tsx";
import { StepView } from "./step-view.tsx";
import { buildSteps } from "./steps.ts";

interface Played {
  version: number;
  outcome: string;
  steps: number;
  items: Item[];
}

export function ContinueWithModel({ path, models, onStart }: { path: string; models: string[]; onStart(): void }) {
  const [model, setModel] = useState(models[0] ?? "");
  const [input, setInput] = useState("");
  const [played, setPlayed] = useState<Played>();
  const act = useAction();
  const play = async (signal: AbortSignal): Promise<void> => {
    setPlayed(undefined);
    onStart();
    setPlayed(await post<Played>(`${path}/play`, { model, ...(input.trim() !== "" && { input }) }, signal));
  };
  const said = played ? buildSteps({ response: { output: played.items as unknown as Json } }, []) : [];
  return (
    <section class="playground" aria-label="Let a model continue">
      <h3>Let a model continue</h3>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          act.start(play);
        }}
      >
        <label class="row">
          Model
          <select value={model} onChange={(event) => setModel(event.currentTarget.value)}>
            {models.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span class="dim">Message to the model (optional)</span>
          <textarea rows={2} value={input} onInput={(event) => setInput(event.currentTarget.value)} />
        </label>
        <div class="row">
          <button class="primary" disabled={act.isBusy}>
            {act.isBusy ? "Running…" : "Run"}
          </button>
          {act.isBusy && (
            <button type="button" onClick={act.cancel}>
              Cancel
            </button>
          )}
          <output aria-live="polite" class="dim">
            {played && `${played.outcome} after ${count(played.steps, "step")}, at version ${played.version}`}
          </output>
        </div>
        <RefusalNote act={act} />
      </form>
      {said
        .filter(({ type }) => type === "said" || type === "thought")
        .map((step, at) => (
          <StepView
            key={at}
            id={`played ${at}`}
            step={step}
            environment={undefined}
            isHere={false}
            onVersion={onStart}
          />
        ))}
    </section>
  );
}
