// A line of the reward that verify would give at each version.
import { useState } from "preact/hooks";
import type { StepReward } from "../../../../src/core/sessions.ts";
import { ask } from "../../data/server.ts";
import { useAction } from "../../data/use-action.ts";
import { count, number } from "../../parts/format.ts";
import { RefusalNote } from "../../parts/refusal-note.tsx";

export interface RewardChartProps {
  path: string;
  version: number;
  last: number;
  onVersion(version: number): void;
}

export function RewardChart({ path, version, last, onVersion }: RewardChartProps) {
  const act = useAction();
  const [found, setFound] = useState<{ rewards: StepReward[]; last: number }>();
  const load = async (signal: AbortSignal): Promise<void> => {
    const { rewards } = await ask<{ rewards: StepReward[] }>(`${path}/rewards`, { signal });
    setFound({ rewards, last });
  };
  return (
    <>
      <button disabled={act.isBusy} onClick={() => act.start(load)}>
        {act.isBusy
          ? "Verifying every version…"
          : found
            ? "Compute the reward at every version again"
            : "Compute the reward at every version"}
      </button>
      {found && <span class="dim">{summaryOf(found.rewards)}</span>}
      <RefusalNote act={act} />
      {found && found.rewards.length > 0 && (
        <Line {...{ version, last, onVersion }} rewards={found.rewards} until={found.last} />
      )}
    </>
  );
}

function summaryOf(rewards: StepReward[]): string {
  const scored = rewards.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const failed = rewards.length - scored.length;
  const range = scored.length === 0 ? "" : `${number(Math.min(...scored))} to ${number(Math.max(...scored))}`;
  return [count(rewards.length, "version"), range, failed > 0 ? `${failed} could not be verified` : ""]
    .filter((part) => part !== "")
    .join(", ");
}

const [width, height, edge] = [1000, 100, 8];

interface LineProps extends Omit<RewardChartProps, "path"> {
  rewards: StepReward[];
  /** The newest version when the rewards were computed: later versions have none yet. */
  until: number;
}

function Line({ rewards, until, version, last, onVersion }: LineProps) {
  const values = rewards.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const [low, high] = [Math.min(0, ...values), Math.max(1, ...values)];
  const x = (of: number): number => (last < 2 ? width / 2 : ((of - 1) / (last - 1)) * width);
  const y = (reward: number): number => edge + (1 - (reward - low) / (high - low)) * (height - 2 * edge);
  // A reward holds until the next version that changed the state.
  const path = rewards.reduce((line, { version: at, reward }) => {
    if (reward === null) return line;
    return line === "" ? `M${x(at)} ${y(reward)}` : `${line}H${x(at)}V${y(reward)}`;
  }, "");
  const here = rewards.findLast(({ version: at }) => at <= version && version <= until);
  const few = rewards.length <= 200;
  return (
    <figure class="rewards-figure">
      <div class="rewards-axis num" aria-hidden="true">
        <span>{number(high)}</span>
        <span>{number(low)}</span>
      </div>
      <div class="rewards-plot">
        <svg
          viewBox={`0 0 ${width} ${height}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`Reward by version: ${summaryOf(rewards)}`}
        >
          <path class="rewards-line" d={`${path}H${x(until)}`} vector-effect="non-scaling-stroke" />
          <path class="rewards-here" d={`M${x(version)} 0V${height}`} vector-effect="non-scaling-stroke" />
        </svg>
        {few &&
          rewards.map(({ version: at, reward, error }) => (
            <button
              key={at}
              class={`rewards-point ${reward === null ? "failed" : ""}`}
              style={{ left: `${(x(at) / width) * 100}%`, top: `${reward === null ? 100 : y(reward)}%` }}
              aria-label={`Version ${at}: ${reward === null ? `failed, ${error ?? ""}` : `reward ${number(reward)}`}`}
              title={`version ${at}: ${reward === null ? (error ?? "failed") : number(reward)}`}
              onClick={() => onVersion(at)}
            />
          ))}
        {!few && (
          <div
            class="rewards-field"
            onClick={(event) => {
              const { left, width: wide } = event.currentTarget.getBoundingClientRect();
              onVersion(Math.round(1 + ((event.clientX - left) / wide) * (last - 1)));
            }}
          />
        )}
      </div>
      <figcaption class="dim">
        {version > until && `Computed up to version ${until}. Compute again to include later versions.`}
        {here &&
          (here.reward === null
            ? `Version ${here.version} could not be verified: ${here.error ?? ""}`
            : `Reward ${number(here.reward)} at version ${version}`)}
      </figcaption>
    </figure>
  );
}
