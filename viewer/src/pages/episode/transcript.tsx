// The transcript, step by step. Each step links to its version.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { seconds } from "../../parts/format.ts";
import { VirtualList } from "../../parts/virtual-list.tsx";
import { KeptOpen, StepView } from "./step-view.tsx";
import type { Step } from "./steps.ts";

export interface TranscriptProps {
  steps: Step[];
  /** The environment for links to sessions. */
  environment: string | undefined;
  /** The shown version; undefined without a log. */
  version: number | undefined;
  /** Whether the shown version is the newest because the reader chose none. The transcript then starts at its top. */
  isFollowing: boolean;
  onVersion(version: number): void;
}

export function Transcript({ steps, environment, version, isFollowing, onVersion }: TranscriptProps) {
  // Unfolded parts stay unfolded when the reader scrolls away and back.
  const kept = useRef(new Map<string, boolean>());
  const here = useMemo(() => stepAt(steps, version), [steps, version]);
  const [shown, setShown] = useState<number>();
  const list = useRef<HTMLDivElement>(null);
  const isAtEnd = useScrolledToEnd(list);
  useEffect(() => {
    // At its end, the transcript follows new steps. Otherwise it scrolls only to a version that the reader chose.
    if (!isFollowing) setShown(here);
    else if (isAtEnd()) setShown(steps.length - 1);
  }, [version, isFollowing]);
  // Only once: afterwards the reader scrolls freely, even while steps are added.
  useEffect(() => {
    if (shown !== undefined) setShown(undefined);
  }, [shown]);
  return (
    <KeptOpen.Provider value={kept.current}>
      <div ref={list}>
        <VirtualList
          count={steps.length}
          height={70}
          isMeasured
          shown={shown}
          attributes={{ class: "transcript", role: "list", tabIndex: 0, "aria-label": "Transcript" }}
        >
          {(index, { key, ...place }) => {
            const step = steps[index] as Step;
            return (
              <div
                key={key}
                {...place}
                role="listitem"
                aria-setsize={steps.length}
                aria-posinset={index + 1}
                aria-current={index === here ? "step" : undefined}
                class="step-place"
              >
                <TurnMark step={step} before={steps[index - 1]} />
                <StepView id={String(index)} {...{ step, environment, onVersion }} isHere={index === here} />
              </div>
            );
          }}
        </VirtualList>
      </div>
    </KeptOpen.Provider>
  );
}

/** Marks the start of each answer of the model, with the time since the step before. */
function TurnMark({ step: { turn, at, ...step }, before }: { step: Step; before: Step | undefined }) {
  if (turn === undefined || turn === before?.turn) return null;
  const start = at === undefined || step.type !== "called" ? at : at - (step.seconds ?? 0) * 1000;
  const waited = start === undefined || before?.at === undefined ? undefined : (start - before.at) / 1000;
  return (
    <p class="step-turn dim">
      Turn {turn}
      {waited !== undefined && waited > 0 && <span title="Time since the previous step"> · {seconds(waited)}</span>}
    </p>
  );
}

/** Returns whether the list was scrolled to its end before the last change. At first it is not. */
function useScrolledToEnd(list: { current: HTMLElement | null }): () => boolean {
  const isAtEnd = useRef(false);
  useEffect(() => {
    const element = list.current?.querySelector(".virtual");
    const scrolled = (): void => {
      if (element) isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < 40;
    };
    element?.addEventListener("scroll", scrolled, { passive: true });
    return () => element?.removeEventListener("scroll", scrolled);
  }, []);
  return () => isAtEnd.current;
}

/** The step of a version or the last step before it, because an event may have no step. */
function stepAt(steps: Step[], version: number | undefined): number | undefined {
  if (version === undefined) return undefined;
  let found: number | undefined;
  for (const [at, step] of steps.entries()) {
    if (step.version === version) return at;
    if (step.version !== undefined && step.version < version) found = at;
  }
  return found;
}
