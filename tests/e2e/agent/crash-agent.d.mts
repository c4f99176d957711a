// The types of crash-agent.mjs.
import type * as Holdfast from "holdfast";

export function crashAgent(
  built: string,
  store: Holdfast.Store,
  report: (...words: (string | number)[]) => void,
): Promise<{ agent: Holdfast.Agent; episodes: Holdfast.Sessions; holdfast: typeof Holdfast }>;
