// The context of every page: the data source and the description of its contents.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { About } from "../../src/rollout/collection-view.ts";
import type { Source } from "./data/source.ts";

export interface Known {
  source: Source;
  about: About;
}

export const KnownContext = createContext<Known | undefined>(undefined);

export function useKnown(): Known {
  const known = useContext(KnownContext);
  if (!known) throw new Error("a page is shown before the server was asked what there is");
  return known;
}
