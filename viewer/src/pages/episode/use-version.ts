// useVersion(): the shown version, mirrored in the address.
import { useEffect, useRef, useState } from "preact/hooks";
import { setParameters } from "../../address.ts";

/** Browsers reject more than a few address changes per second. */
const settled = 250;

/**
 * Returns the version, a function that selects another, and whether the page follows the newest version, which it does
 * if the address has no `v`. Selecting the newest version removes `v`.
 */
export function useVersion(parameters: URLSearchParams, last: number): [number, (version: number) => void, boolean] {
  const told = parameters.get("v");
  const [chosen, setChosen] = useState(told);
  const written = useRef(told);
  useEffect(() => {
    // The reader followed a link or went back.
    if (told !== written.current) setChosen(told);
    written.current = told;
  }, [told]);
  useEffect(() => {
    if (chosen === written.current) return undefined;
    const timer = setTimeout(() => {
      written.current = chosen;
      setParameters({ v: chosen ?? undefined }, true);
    }, settled);
    return () => clearTimeout(timer);
  }, [chosen]);
  const version = Number(chosen ?? last);
  const fitting = Number.isInteger(version) && version >= 1 ? Math.min(version, last) : last;
  const choose = (next: number): void => setChosen(next >= last ? null : String(Math.max(1, next)));
  return [fitting, choose, chosen === null];
}
