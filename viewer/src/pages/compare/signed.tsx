// A difference with its sign, so that colour is not the only cue.
import { number } from "../../parts/format.ts";

export function Signed({ value }: { value: number }) {
  const text = value > 0 ? `+${number(value)}` : number(value).replace("-", "−");
  return <span class={value > 0 ? "good" : value < 0 ? "bad" : "dim"}>{text}</span>;
}
