// The calls that win an episode of blackjack: each hand by the basic strategy, using only the output of the tools.
import { basicStrategy, type Rank } from "./rules.ts";

interface View {
  playing: boolean;
  hand: Rank[];
  dealer: [Rank];
}

export default function* solution({ hands }: { hands: number }) {
  for (let hand = 0; hand < hands; hand++) {
    let [view] = (yield [{ tool: "deal", input: {} }]) as [View];
    while (view.playing) {
      const move = basicStrategy(view.hand, view.dealer[0]);
      [view] = (yield [{ tool: move, input: {} }]) as [View];
    }
  }
}
