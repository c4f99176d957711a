// A difference with its sign, so that colour is not the only cue.
import { number } from "../../parts/format.ts";

export const signed = (value: number): string => (value > 0 ? `+${number(value)}` : number(value));

export function Signed({ value, isPlain = false }: { value: number; isPlain?: boolean }) {
  const colour = isPlain || value === 0 ? "dim" : value > 0 ? "good" : "bad";
  return <span class={colour}>{signed(value)}</span>;
}
