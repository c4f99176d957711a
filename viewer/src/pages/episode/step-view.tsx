// One step of a transcript. Text written by a model becomes text and simple formatting, never HTML.
import { createContext, type ComponentChildren } from "preact";
import { useContext, useMemo, useState } from "preact/hooks";
import type { Json } from "../../../../src/core/json.ts";
import { linkTo } from "../../address.ts";
import { number, seconds, short } from "../../parts/format.ts";
import { preview, formatForReading } from "../../parts/json-rows.ts";
import { LongText } from "../../parts/long-text.tsx";
import { rewardTone } from "./episode-header.tsx";
import type { Step } from "./steps.ts";
import { ThrownView } from "./thrown-view.tsx";

/** Which parts the reader unfolded, by name. It lives outside the step, because steps out of view are not rendered. */
export const KeptOpen = createContext(new Map<string, boolean>());

function useKept(name: string, isOpenAtFirst: boolean): [boolean, (isOpen: boolean) => void] {
  const kept = useContext(KeptOpen);
  const [isOpen, setIsOpen] = useState(kept.get(name) ?? isOpenAtFirst);
  const change = (next: boolean): void => {
    kept.set(name, next);
    setIsOpen(next);
  };
  return [isOpen, change];
}

interface StepProps {
  id: string;
  step: Step;
  environment: string | undefined;
  isHere: boolean;
  onVersion(version: number): void;
}

export function StepView({ id, step, environment, isHere, onVersion }: StepProps) {
  const { version } = step;
  const isFailed =
    (step.type === "called" && step.error !== undefined) || (step.type === "note" && step.tone === "bad");
  const tone = step.type === "verdict" ? rewardTone(step.reward) : "";
  const name = `step ${step.type} ${tone} ${isHere ? "here" : ""} ${isFailed ? "failed" : ""} ${step.isUndone ? "undone" : ""}`;
  // The button is for the keyboard. A click anywhere also selects the step, unless it selects text or folds a part.
  const pick = (event: MouseEvent): void => {
    const isOther = (event.target as Element).closest("button, a, summary, .long-text-all") !== null;
    if (version !== undefined && !isOther && (getSelection()?.isCollapsed ?? true)) onVersion(version);
  };
  return (
    <article class={name} onClick={pick}>
      <header>
        <Title step={step} />
        {step.isUndone && <span class="badge">undone by a rewind</span>}
        <Timing step={step} />
        {version !== undefined && (
          <button
            class="quiet step-version"
            aria-label={`v${version}: show this version`}
            onClick={() => onVersion(version)}
          >
            v{version}
          </button>
        )}
      </header>
      <Content {...{ id, step, environment }} />
    </article>
  );
}

function Timing({ step }: { step: Step }) {
  const took = step.type === "called" ? step.seconds : undefined;
  if (took === undefined && step.at === undefined) return null;
  return (
    <span class="dim step-time" title={step.at === undefined ? undefined : new Date(step.at).toISOString()}>
      {took === undefined ? "" : seconds(took)}
    </span>
  );
}

function Title({ step }: { step: Step }) {
  switch (step.type) {
    case "said":
      return <b class={step.who === "user" ? "who user" : "who"}>{short(step.who)}</b>;
    case "thought":
      return <b class="who dim">thought</b>;
    case "called":
      return (
        <b class="who tool">
          <span aria-hidden="true">⚙ </span>
          <span class="unseen">call of </span>
          {short(step.tool)}
          {step.error && <span class="bad"> failed</span>}
          {step.parallel && (
            <span class="badge">
              parallel {step.parallel.number} of {step.parallel.of}
            </span>
          )}
        </b>
      );
    case "verdict":
      return (
        <b class="who">
          reward {number(step.reward)}
          {/* The judged version is shown only if it is not the previous version. */}
          {step.version !== undefined && step.judged !== step.version - 1 && (
            <span class="dim"> for version {step.judged}</span>
          )}
        </b>
      );
    case "note":
      return <span class={`who ${step.tone ?? "dim"}`}>{short(step.text, 1000)}</span>;
    case "other":
      return <b class="who dim">{short(String(Object(step.item).type ?? "entry"))}</b>;
  }
}

function Content({ id, step, environment }: Pick<StepProps, "id" | "step" | "environment">) {
  switch (step.type) {
    case "said":
      return step.text === "" ? (
        <p class="dim">(empty)</p>
      ) : (
        <Text id={id} text={step.text} lines={step.who === "assistant" ? 30 : 10} isMarkdown />
      );
    case "thought":
      return (
        <Folded id={id} title={preview(step.text, 100)} isOpenAtFirst={false}>
          <Text id={`${id} text`} text={step.text} lines={30} isMarkdown />
        </Folded>
      );
    case "called":
      return (
        <div class="step-call">
          <Value id={`${id} in`} name="input" value={step.input} />
          {step.output !== undefined && <Value id={`${id} out`} name="output" value={step.output} />}
          {step.error && (
            <div class="step-value bad">
              <span class="step-name">{step.error.code}</span>
              <Text id={`${id} error`} text={step.error.message} lines={8} />
              {step.thrown && (
                <Folded id={`${id} thrown`} title={`thrown in ${step.thrown.place}`} isOpenAtFirst={false}>
                  <ThrownView thrown={step.thrown} />
                </Folded>
              )}
            </div>
          )}
          {step.output === undefined && !step.error && <p class="dim">no output recorded</p>}
        </div>
      );
    case "verdict":
      return Object.keys(step.details).length === 0 ? null : <Value id={id} name="details" value={step.details} />;
    case "note":
      return (
        <>
          {step.details !== undefined && <Value id={id} name="task" value={step.details} />}
          {step.parent && environment !== undefined && (
            <a href={linkTo(["sessions", environment, step.parent.session], { v: step.parent.version })}>
              Open the parent session
            </a>
          )}
        </>
      );
    case "other":
      return <Value id={id} name="item" value={step.item} />;
  }
}

function Value({ id, name, value }: { id: string; name: string; value: Json }) {
  const text = useMemo(() => formatForReading(value), [value]);
  return (
    <div class="step-value">
      <span class="step-name">{name}</span>
      <Text id={id} text={text} lines={8} />
    </div>
  );
}

interface TextProps {
  id: string;
  text: string;
  lines: number;
  isMarkdown?: boolean;
}

function Text({ id, text, lines, isMarkdown = false }: TextProps) {
  const [isOpen, setIsOpen] = useKept(`${id} all`, false);
  return <LongText {...{ text, lines, isMarkdown, isOpen }} onOpen={setIsOpen} />;
}

interface FoldedProps {
  id: string;
  title: string;
  isOpenAtFirst: boolean;
  children: ComponentChildren;
}

function Folded({ id, title, isOpenAtFirst, children }: FoldedProps) {
  const [isOpen, setIsOpen] = useKept(id, isOpenAtFirst);
  return (
    <details open={isOpen} onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {isOpen && children}
    </details>
  );
}
