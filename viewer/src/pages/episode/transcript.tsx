// The transcript: what was said and done, step by step, each linked to its version.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { VirtualList } from "../../parts/virtual-list.tsx";
import { KeptOpen, StepView } from "./step-view.tsx";
import type { Step } from "./steps.ts";

export interface TranscriptProps {
  steps: Step[];
  /** The environment, for links to sessions. */
  environment: string | undefined;
  /** The version that is shown; undefined where there is no log. */
  version: number | undefined;
  onVersion(version: number): void;
}

export function Transcript({ steps, environment, version, onVersion }: TranscriptProps) {
  // What was unfolded stays so when it is scrolled out of sight and back.
  const kept = useRef(new Map<string, boolean>());
  const here = useMemo(() => stepAt(steps, version), [steps, version]);
  const [shown, setShown] = useState<number>();
  useEffect(() => setShown(here), [version]);
  // Once: then a person may scroll as they like, also while steps are added.
  useEffect(() => {
    if (shown !== undefined) setShown(undefined);
  }, [shown]);
  return (
    <KeptOpen.Provider value={kept.current}>
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
              <StepView id={String(index)} {...{ step, environment, onVersion }} isHere={index === here} />
            </div>
          );
        }}
      </VirtualList>
    </KeptOpen.Provider>
  );
}

/** The step of a version, or the last one before it: an event may have no step of its own. */
function stepAt(steps: Step[], version: number | undefined): number | undefined {
  if (version === undefined) return undefined;
  let found: number | undefined;
  for (const [at, step] of steps.entries()) {
    if (step.version === version) return at;
    if (step.version !== undefined && step.version < version) found = at;
  }
  return found;
}
