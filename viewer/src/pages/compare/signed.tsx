// A difference with its sign, so that colour is not the only cue.
import { number } from "../../parts/format.ts";

export function Signed({ value, isPlain = false }: { value: number; isPlain?: boolean }) {
  const colour = isPlain || value === 0 ? "dim" : value > 0 ? "good" : "bad";
  return <span class={colour}>{value > 0 ? `+${number(value)}` : number(value)}</span>;
}
