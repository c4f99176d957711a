// The transcript, step by step. Each step links to its version.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { VirtualList } from "../../parts/virtual-list.tsx";
import { KeptOpen, StepView } from "./step-view.tsx";
import type { Step } from "./steps.ts";

export interface TranscriptProps {
  steps: Step[];
  /** The environment for links to sessions. */
  environment: string | undefined;
  /** The shown version; undefined without a log. */
  version: number | undefined;
  onVersion(version: number): void;
}

export function Transcript({ steps, environment, version, onVersion }: TranscriptProps) {
  // Unfolded parts stay unfolded when the reader scrolls away and back.
  const kept = useRef(new Map<string, boolean>());
  const here = useMemo(() => stepAt(steps, version), [steps, version]);
  const [shown, setShown] = useState<number>();
  useEffect(() => setShown(here), [version]);
  // Only once: afterwards the reader scrolls freely, even while steps are added.
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
