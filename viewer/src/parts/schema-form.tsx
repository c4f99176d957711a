// A form built from a JSON Schema. Unsupported parts are edited as JSON, and so can be the whole value.
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useMemo, useState } from "preact/hooks";
import type { Json } from "../../../src/core/json.ts";
import type { JsonSchema } from "../../../src/core/json-schema.ts";
import { messageOf } from "../data/source.ts";
import { preview } from "./json-rows.ts";
import { toField, initialValue, newEntry, omitEmpty, withKey, type Draft, type Field } from "./schema-fields.ts";
import "./schema-form.css";

export interface SchemaFormProps {
  schema: JsonSchema;
  /** Receives the value, or undefined while it cannot be sent. */
  onChange(value: Draft): void;
}

export function SchemaForm({ schema, onChange }: SchemaFormProps) {
  const field = useMemo(() => toField(schema), [schema]);
  const [value, setValue] = useState<Draft>(() => initialValue(field) ?? {});
  const [isRaw, setIsRaw] = useState(false);
  // A layout effect, so that the sent value is the visible one.
  useLayoutEffect(() => onChange(value), [value]);
  const isForm = field.kind === "object";
  return (
    <div class="form">
      {isForm && (
        <label class="form-raw">
          <input type="checkbox" checked={isRaw} onChange={(event) => setIsRaw(event.currentTarget.checked)} /> as JSON
        </label>
      )}
      {isForm && !isRaw ? (
        <Entry name="arguments" field={field} value={value} onChange={setValue} isTop />
      ) : (
        <JsonField label="Arguments, as JSON" value={value} onChange={setValue} />
      )}
    </div>
  );
}

interface EntryProps {
  name: string;
  field: Field;
  value: Draft;
  onChange(value: Draft): void;
  /** Whether this is the form itself, which has no frame. */
  isTop?: boolean;
}

function Entry({ name, field, value, onChange, isTop }: EntryProps) {
  const id = useId();
  const set = (next: Draft): void => onChange(omitEmpty(field, next));
  if (field.kind === "object") {
    const inside = field.fields.map(({ name: key, field: inner }) => (
      <Entry
        {...{ key, name: key, field: inner, value: inObject(value, key) }}
        onChange={(next) => (isTop ? onChange : set)(withKey(value, key, next))}
      />
    ));
    if (isTop) return <>{inside.length > 0 ? inside : <p class="dim form-none">This tool takes no arguments.</p>}</>;
    return <Frame {...{ name, field }}>{inside}</Frame>;
  }
  if (field.kind === "list") return <List {...{ name, field, value, onChange: set }} />;
  const described = field.description === "" ? undefined : `${id}-about`;
  return (
    <div class="form-entry">
      <label for={id}>
        {name}
        {field.isRequired ? "" : <span class="dim"> (optional)</span>}
      </label>
      <Input {...{ id, name, field, value, described }} onChange={set} />
      {described && (
        <p id={described} class="dim form-about">
          {field.description}
        </p>
      )}
    </div>
  );
}

const inObject = (value: Draft, key: string): Draft =>
  typeof value === "object" && value !== null && !Array.isArray(value) && Object.hasOwn(value, key)
    ? value[key]
    : undefined;

function Frame({ name, field, children }: { name: string; field: Field; children: ComponentChildren }) {
  return (
    <fieldset class="form-frame">
      <legend>
        {name}
        {field.isRequired ? "" : <span class="dim"> (optional)</span>}
      </legend>
      {field.description !== "" && <p class="dim form-about">{field.description}</p>}
      {children}
    </fieldset>
  );
}

type ListProps = Omit<EntryProps, "field" | "isTop"> & { field: Extract<Field, { kind: "list" }> };

function List({ name, field, value, onChange }: ListProps) {
  const list = Array.isArray(value) ? value : [];
  return (
    <Frame {...{ name, field }}>
      {list.map((item, at) => (
        <div key={at} class="form-item">
          <Entry
            {...{ name: `${name} ${at + 1}`, field: field.item, value: item }}
            onChange={(next) => onChange(list.with(at, next ?? null))}
          />
          <button
            type="button"
            class="quiet"
            aria-label={`Remove ${name} ${at + 1}`}
            onClick={() => onChange(list.toSpliced(at, 1))}
          >
            ✕
          </button>
        </div>
      ))}
      <button type="button" onClick={() => onChange([...list, newEntry(field.item)])}>
        Add to {name}
      </button>
    </Frame>
  );
}

interface InputProps extends Omit<EntryProps, "isTop"> {
  id: string;
  described: string | undefined;
}

function Input({ id, name, field, value, onChange, described }: InputProps) {
  const shared = { id, "aria-describedby": described };
  switch (field.kind) {
    case "text":
      return (
        <textarea
          {...shared}
          rows={Math.min(8, String(value ?? "").split("\n").length)}
          class="form-text"
          value={typeof value === "string" ? value : ""}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      );
    case "number":
      return (
        <input
          {...shared}
          type="number"
          step={field.isWhole ? 1 : "any"}
          value={typeof value === "number" ? value : ""}
          onInput={({ currentTarget: { value: text } }) => onChange(text === "" ? undefined : Number(text))}
        />
      );
    case "boolean":
      return <Choice {...{ ...shared, value, onChange, field }} choices={[true, false]} />;
    case "choice":
      return <Choice {...{ ...shared, value, onChange, field }} choices={field.choices} />;
    default:
      return <JsonField id={id} label={`${name}, as JSON`} value={value} onChange={onChange} />;
  }
}

interface ChoiceProps {
  id: string;
  "aria-describedby": string | undefined;
  field: Field;
  choices: Json[];
  value: Draft;
  onChange(value: Draft): void;
}

function Choice({ field, choices, value, onChange, ...shared }: ChoiceProps) {
  const at = choices.findIndex((choice) => JSON.stringify(choice) === JSON.stringify(value));
  const isOpen = !field.isRequired || field.isNullable || at < 0;
  return (
    <select {...shared} value={String(at)} onChange={(event) => onChange(choices[Number(event.currentTarget.value)])}>
      {isOpen && <option value="-1">–</option>}
      {choices.map((choice, index) => (
        <option key={index} value={String(index)}>
          {typeof choice === "string" ? choice : preview(choice, 60)}
        </option>
      ))}
    </select>
  );
}

interface JsonFieldProps {
  id?: string;
  label: string;
  value: Draft;
  onChange(value: Draft): void;
}

function JsonField({ id, label, value, onChange }: JsonFieldProps) {
  const [text, setText] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)));
  const [fault, setFault] = useState<string>();
  const change = (next: string): void => {
    setText(next);
    try {
      onChange(next.trim() === "" ? undefined : (JSON.parse(next) as Json));
      setFault(undefined);
    } catch (thrown) {
      onChange(undefined);
      setFault(`This is not valid JSON yet: ${messageOf(thrown)}`);
    }
  };
  return (
    <>
      <textarea
        id={id}
        aria-label={label}
        rows={Math.max(2, Math.min(12, text.split("\n").length))}
        spellcheck={false}
        value={text}
        onInput={(event) => change(event.currentTarget.value)}
      />
      {fault !== undefined && <p class="warn form-about">{fault}</p>}
    </>
  );
}
