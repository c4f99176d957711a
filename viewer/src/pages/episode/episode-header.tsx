// The top of an episode: what it is of, what came of it, and where to go from there.
import type { ComponentChildren } from "preact";

export interface Fact {
  name: string;
  value: ComponentChildren;
}

export interface EpisodeHeaderProps {
  title: ComponentChildren;
  /** Left out where there is no value. */
  facts: Fact[];
  /** At the end of the first line. */
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
