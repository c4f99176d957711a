// Blackjack: a random world. The shoe is shuffled when an episode is seeded, and is part of the state from then on.
import { defineEnvironment, refuse, tool } from "holdfast";
import { z } from "zod";
import { basicStrategy, move, numbers, rank, resultOf, shuffled, worth, type Move, type Rank } from "./rules.ts";

const state = z.object({
  hands: z.int(),
  dealer_hits_soft_17: z.boolean(),
  // The next card is the last one. A model sees only the output of tools, so hidden cards may be here.
  shoe: z.array(rank),
  hand: z.array(rank).default([]),
  dealer: z.array(rank).default([]),
  playing: z.boolean().default(false),
  results: z.array(z.enum(["win", "push", "loss"])).default([]),
  moves: z.array(z.object({ hand: z.array(rank), dealer_shows: rank, move })).default([]),
});
type Table = z.infer<typeof state>;

function draw({ shoe }: Table): Rank {
  const card = shoe.pop();
  if (!card) throw new Error("the shoe is empty");
  return card;
}

/** The player's view: only the first of the dealer's cards, until the hand is over. */
function view({ hand, dealer, playing, results, hands }: Table) {
  return {
    playing,
    hand: [...hand],
    ...worth(hand),
    dealer: playing ? dealer.slice(0, 1) : [...dealer],
    result: playing ? null : (results.at(-1) ?? null),
    hands_left: hands - results.length - Number(playing),
  };
}

/** Records a move. If no hand is running, refuses the move and says which tool to call instead. */
function record(table: Table, move: Move): void {
  const { playing, hand, dealer, moves } = table;
  const [dealer_shows] = dealer;
  if (playing && dealer_shows) {
    moves.push({ hand: [...hand], dealer_shows, move });
    return;
  }
  const { result, hands_left } = view(table);
  const over = result ? `the hand is over (${result})` : "no hand has been dealt";
  const next = hands_left > 0 ? `deal begins the next hand, of ${hands_left} left` : "all hands have been played";
  throw refuse(`you cannot ${move}: ${over}; ${next}`);
}

function end(table: Table): void {
  table.playing = false;
  table.results.push(resultOf(table.hand, table.dealer));
}

export default defineEnvironment({
  name: "blackjack",
  description: "A table of blackjack, with a shoe that is shuffled for each episode.",
  state,
  task: z.object({
    // A hand takes at most 51 of the 340 points of a deck, so the shoe is never empty.
    hands: z.int().min(1).max(12),
    decks: z.int().min(2).max(8),
    dealer_hits_soft_17: z.boolean(),
    // The random seed of the cards' order. If omitted, every episode has its own order.
    shuffle: z.int().optional(),
  }),
  // There is no table to sit at before the shoe is shuffled.
  unseeded: "reject",
  // `random` is recorded. With Math.random, a replay of the episode would have a different shoe.
  seed: ({ task: { hands, decks, dealer_hits_soft_17, shuffle }, random }) => ({
    hands,
    dealer_hits_soft_17,
    shoe: shuffled(decks, shuffle === undefined ? random : numbers(shuffle)),
  }),
  tools: {
    deal: tool({
      description: "Begin the next hand: two cards for you, and two for the dealer, of which you see one.",
      run: ({ state }) => {
        if (state.playing) throw refuse("a hand is being played; hit or stand until it is over");
        if (state.results.length === state.hands) throw refuse("all hands have been played");
        state.hand = [draw(state), draw(state)];
        state.dealer = [draw(state), draw(state)];
        state.playing = true;
        return view(state);
      },
    }),
    look: tool({
      description: "See your hand, and the dealer's open card.",
      run: ({ state }) => view(state),
    }),
    hit: tool({
      description: "Take a card. Above 21 the hand is lost.",
      run: ({ state }) => {
        record(state, "hit");
        state.hand.push(draw(state));
        if (worth(state.hand).total > 21) end(state);
        return view(state);
      },
    }),
    stand: tool({
      description: "Take no more cards. The dealer takes cards up to 17, and the hand is over.",
      run: ({ state }) => {
        record(state, "stand");
        for (;;) {
          const { total, soft } = worth(state.dealer);
          if (total > 17 || (total === 17 && !(soft && state.dealer_hits_soft_17))) break;
          state.dealer.push(draw(state));
        }
        end(state);
        return view(state);
      },
    }),
  },
  // Scores the decisions, not the cards: the share of moves that agree with the basic strategy.
  verify: ({ state: { hands, results, moves } }) => {
    const right = moves.filter(({ hand, dealer_shows, move }) => basicStrategy(hand, dealer_shows) === move).length;
    const count = (result: string): number => results.filter((each) => each === result).length;
    const reward = results.length === hands ? right / moves.length : 0;
    return { reward, moves: moves.length, won: count("win"), pushed: count("push"), lost: count("loss") };
  },
});
