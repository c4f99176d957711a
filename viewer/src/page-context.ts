// The context of every page: the data source and the description of its contents.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { About } from "../../src/rollout/collection-view.ts";
import type { NamedRun } from "./data/references.ts";
import type { Source } from "./data/source.ts";

export interface PageContextValue {
  source: Source;
  about: Omit<About, "runs"> & { runs: NamedRun[] };
}

export const PageContext = createContext<PageContextValue | undefined>(undefined);

export function usePageContext(): PageContextValue {
  const known = useContext(PageContext);
  if (!known) throw new Error("the page was rendered before the server described its contents");
  return known;
}
