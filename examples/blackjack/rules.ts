// The rules of blackjack: the count of a hand, the best move, and a shuffled shoe.
import { z } from "zod";

export const rank = z.enum(["A", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K"]);
export const move = z.enum(["hit", "stand"]);
export type Rank = z.infer<typeof rank>;
export type Move = z.infer<typeof move>;

/** The count of a hand; soft if an ace counts 11. */
export function worth(cards: readonly Rank[]): { total: number; soft: boolean } {
  const low = cards.reduce((sum, card) => sum + (card === "A" ? 1 : Number(card) || 10), 0);
  const soft = cards.includes("A") && low <= 11;
  return { total: soft ? low + 10 : low, soft };
}

/**
 * The basic strategy of hit and stand: the best move for a player who sees only these cards.
 * It is the same for two decks or more, whether the dealer hits soft 17 or not.
 */
export function basicStrategy(hand: readonly Rank[], dealerShows: Rank): Move {
  const { total, soft } = worth(hand);
  const dealer = worth([dealerShows]).total;
  const stands = soft
    ? total >= 19 || (total === 18 && dealer <= 8)
    : total >= 17 || (total >= 13 && dealer <= 6) || (total === 12 && dealer >= 4 && dealer <= 6);
  return stands ? "stand" : "hit";
}

/** The winner, when no more cards are taken. */
export function resultOf(hand: readonly Rank[], dealer: readonly Rank[]): "win" | "push" | "loss" {
  const points = (cards: readonly Rank[]): number => {
    const { total } = worth(cards);
    // A bust is worth nothing, and 21 with two cards beats 21 with three.
    if (total > 21) return 0;
    return total === 21 && cards.length === 2 ? 22 : total;
  };
  const [ours, theirs] = [points(hand), points(dealer)];
  if (ours === 0 || ours < theirs) return "loss";
  return ours > theirs ? "win" : "push";
}

/** The cards of some decks, in an order that depends only on `random`. */
export function shuffled(decks: number, random: () => number): Rank[] {
  const shoe = Array.from({ length: decks * 4 }, () => rank.options).flat();
  for (let last = shoe.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [shoe[last], shoe[other]] = [shoe[other] as Rank, shoe[last] as Rank];
  }
  return shoe;
}

/** Numbers in [0, 1) from a seed (mulberry32). */
export function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 0x100000000;
  };
}
