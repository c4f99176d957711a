// Prints tasks.jsonl: 64 tasks, for 8 tables. From the root: npx jiti examples/blackjack/generate.ts
import { z } from "zod";
import environment from "./environment.ts";

const tools = [...environment.definitions].map(([name, { description, input }]) => {
  const { $schema: _, ...parameters } = z.toJSONSchema((input ?? z.object({})) as z.ZodType);
  return { type: "function", name, description, parameters, strict: true };
});

const tables = [2, 4, 6, 8].flatMap((decks) => [false, true].map((hits) => ({ decks, dealer_hits_soft_17: hits })));
for (let hands = 1; hands <= 8; hands++) {
  for (const [at, { decks, dealer_hits_soft_17 }] of tables.entries()) {
    const content =
      `Play ${hands === 1 ? "a hand" : `${hands} hands`} of blackjack, from a shoe of ${decks} decks. ` +
      `The dealer ${dealer_hits_soft_17 ? "hits" : "stands on"} soft 17. There is no doubling, splitting or surrender. ` +
      `Make every move by the basic strategy of hit and stand, and tell me how many hands you won.`;
    const responses_create_params = { input: [{ role: "user", content }], tools };
    // Half of the tasks have the same cards every time, the other half have new ones.
    const shuffle = hands <= 4 ? hands * 100 + at : undefined;
    console.log(JSON.stringify({ responses_create_params, hands, decks, dealer_hits_soft_17, shuffle }));
  }
}
