// Calls tools manually, with forms built from their schemas.
import { useState } from "preact/hooks";
import type { Json } from "../../../../src/core/json.ts";
import type { JsonSchema } from "../../../../src/core/json-schema.ts";
import type { Answer } from "../../../../src/core/sessions.ts";
import { ask, post } from "../../data/server.ts";
import { SourceError } from "../../data/source.ts";
import { useAction } from "../../data/use-action.ts";
import { useLoaded } from "../../data/use-loaded.ts";
import { formatForReading } from "../../parts/json-rows.ts";
import { LongText } from "../../parts/long-text.tsx";
import { Await } from "../../parts/notice.tsx";
import { RefusalNote } from "../../parts/refusal-note.tsx";
import type { Draft } from "../../parts/schema-fields.ts";
import { SchemaForm } from "../../parts/schema-form.tsx";
import { createAttempts, newCallId } from "./call-attempt.ts";

interface ToolAbout {
  name: string;
  description: string;
  input: JsonSchema;
}

export function Playground({ at, path, onDone }: { at: string; path: string; onDone(): void }) {
  const loaded = useLoaded((signal) => ask<{ tools: ToolAbout[] }>(`${at}/v1/environment`, { signal }), [at]);
  return (
    <section class="playground" aria-label="Playground">
      <h3>Call a tool</h3>
      <Await loaded={loaded}>{({ tools }) => <Tools {...{ tools, path, onDone }} />}</Await>
    </section>
  );
}

function Tools({ tools, path, onDone }: { tools: ToolAbout[]; path: string; onDone(): void }) {
  const [chosen, setChosen] = useState(tools[0]?.name ?? "");
  const [attempts] = useState(() => createAttempts(newCallId));
  const [input, setInput] = useState<Draft>();
  const [answer, setAnswer] = useState<Answer>();
  const act = useAction();
  const tool = tools.find(({ name }) => name === chosen);
  if (!tool) return <p class="dim">This environment has no tools.</p>;
  const call = async (): Promise<void> => {
    const body = { tool: chosen, input: input as Json, call: attempts.idFor(chosen, input as Json) };
    try {
      setAnswer(await post<Answer>(`${path}/call`, body));
      attempts.answered();
      onDone();
    } catch (thrown) {
      // If the server was unreachable, the call may have run, so a retry must be the same call.
      if (thrown instanceof SourceError && thrown.status !== 0) attempts.answered();
      throw thrown;
    }
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (input !== undefined) act.start(call);
      }}
    >
      <div class="row">
        <label class="row">
          Tool
          <select
            value={chosen}
            onChange={(event) => {
              setChosen(event.currentTarget.value);
              setAnswer(undefined);
            }}
          >
            {tools.map(({ name }) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <span class="dim">{tool.description}</span>
      </div>
      <SchemaForm key={chosen} schema={tool.input} onChange={setInput} />
      <div class="row">
        <button class="primary" disabled={act.isBusy || input === undefined}>
          {act.isBusy ? "Calling…" : `Call ${chosen}`}
        </button>
        {act.isBusy && (
          <button type="button" onClick={act.cancel}>
            Cancel
          </button>
        )}
      </div>
      <RefusalNote act={act} />
      {answer && <AnswerView answer={answer} />}
    </form>
  );
}

function AnswerView({ answer }: { answer: Answer }) {
  const text = answer.ok ? formatForReading(answer.output) : answer.error.message;
  return (
    <div class={`playground-answer ${answer.ok ? "" : "failed"}`} role="status">
      <b>{answer.ok ? "output" : answer.error.code}</b>{" "}
      <span class="dim">
        version {answer.version}
        {answer.repeated && ", repeated from the log"}
        {answer.unseeded && ", in a session that was never seeded"}
      </span>
      <LongText text={text} lines={10} />
    </div>
  );
}
