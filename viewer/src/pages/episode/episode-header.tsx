// The top of an episode: its source, its result, and links.
import type { ComponentChildren } from "preact";
import { number } from "../../parts/format.ts";

export interface Fact {
  name: string;
  value: ComponentChildren;
}

export interface EpisodeHeaderProps {
  title: ComponentChildren;
  /** Facts without a value are hidden. */
  facts: Fact[];
  /** Shown at the end of the first line. */
  children?: ComponentChildren;
}

export function EpisodeHeader({ title, facts, children }: EpisodeHeaderProps) {
  return (
    <header class="episode-header">
      <div class="row">
        <h1>{title}</h1>
        {children}
      </div>
      <dl class="episode-facts">
        {facts
          .filter(({ value }) => value !== undefined && value !== null && value !== false && value !== "")
          .map(({ name, value }) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
    </header>
  );
}

/** The class of a reward: only a full reward is good, and none is bad. */
export const rewardTone = (reward: number): "good" | "bad" | "" => (reward >= 1 ? "good" : reward <= 0 ? "bad" : "");

export function Reward({ value }: { value: number }) {
  return <b class={rewardTone(value)}>{number(value)}</b>;
}
