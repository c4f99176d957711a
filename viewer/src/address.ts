// Follows and changes the address of the current view.
import { useLayoutEffect, useState } from "preact/hooks";
import { linkTo, readAddress, type Address } from "./link.ts";

export { linkTo, readAddress, type Address };

/** Changes parameters of the current page. `replace` adds no entry to the browser's history. */
export function setParameters(changes: { [name: string]: string | number | undefined }, replace = false): void {
  const { at, parameters } = readAddress(location.hash);
  const next = linkTo(at, { ...Object.fromEntries(parameters), ...changes });
  if (next === location.hash) return;
  if (!replace) {
    location.hash = next;
    return;
  }
  history.replaceState(null, "", next);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useAddress(): Address {
  const [address, setAddress] = useState(() => readAddress(location.hash));
  useLayoutEffect(() => {
    const changed = (): void => setAddress(readAddress(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return address;
}
