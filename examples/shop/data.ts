// The data of the shop: its types, and a shop of about 100 KB generated from a number.
import { z } from "zod";

const address = z.object({ street: z.string(), city: z.string(), zip: z.string() });
const options = z.record(z.string(), z.string());
const paymentMethod = z.object({
  kind: z.enum(["credit_card", "paypal", "gift_card"]),
  // The balance of a gift card.
  balance_cents: z.int().nullable(),
});
const user = z.object({
  name: z.string(),
  email: z.string(),
  address,
  payment_methods: z.record(z.string(), paymentMethod),
  orders: z.array(z.string()),
});
const variant = z.object({ options, price_cents: z.int(), stock: z.int() });
const product = z.object({ name: z.string(), final_sale: z.boolean(), variants: z.record(z.string(), variant) });
const item = z.object({
  item_id: z.string(),
  product_id: z.string(),
  variant_id: z.string(),
  name: z.string(),
  options,
  price_cents: z.int(),
  returned: z.boolean(),
  exchanged_for: z.string().nullable(),
});
const order = z.object({
  user_id: z.string(),
  status: z.enum(["pending", "shipped", "delivered", "cancelled", "return_requested", "exchange_requested"]),
  placed_on: z.iso.date(),
  delivered_on: z.iso.date().nullable(),
  cancel_reason: z.string().nullable(),
  items_modified: z.boolean(),
  address,
  items: z.array(item),
  // Charged amounts, and refunds below zero.
  payments: z.array(z.object({ payment_method_id: z.string(), amount_cents: z.int() })),
});

export const shop = z.object({
  today: z.iso.date().default("2026-06-15"),
  users: z.record(z.string(), user).default({}),
  products: z.record(z.string(), product).default({}),
  orders: z.record(z.string(), order).default({}),
});
export { address };
export type Shop = z.infer<typeof shop>;
export type Order = z.infer<typeof order>;
export type Item = z.infer<typeof item>;

const first = "Ada Ben Cleo Dara Emil Fay Gus Hana Ines Jon Kira Leo Mira Noor Owen Pia Quinn Rosa Sam Tomas".split(
  " ",
);
const last = "Abbot Birch Chen Diaz Ekman Ford Gray Holt Ito Jain Klein Lund Marsh Nagy Okafor Park Quill Reed".split(
  " ",
);
const streets = "Harbour Lane|Mill Road|Quay Street|Orchard Way|Station Road|Elm Avenue|Chapel Hill".split("|");
const cities = "Northport|Eastwick|Saltby|Millford|Graywater|Highfield|Brookside".split("|");
const goods =
  "Rain Jacket|Wool Sweater|Canvas Backpack|Running Shoes|Desk Lamp|Water Bottle|Wireless Mouse|Keyboard|Headphones|" +
  "Coffee Grinder|Kettle|Office Chair|Yoga Mat|Hiking Boots|Tent|Sleeping Bag|Phone Case|Speaker|Bookshelf|Notebook|" +
  "Umbrella|Wall Clock|Cycling Gloves|Sunglasses|Cotton Shirt|Travel Pillow";
const colors = ["black", "blue", "green", "red", "white", "grey"];
const sizes = ["small", "medium", "large"];

/** Whole numbers below a limit, from a seed (mulberry32). */
export function numbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) % limit;
  };
}

/** Returns the date `days` days before a day, as in 2026-03-02. */
function daysBefore(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) - days * 86_400_000).toISOString().slice(0, 10);
}

/**
 * Creates the shop for a seed; the same seed gives the same shop. It does not use the episode's `random`, because verify
 * creates the shop again from the task alone.
 */
export function makeShop(seed: number): Shop {
  const below = numbers(seed);
  const pick = <T>(list: readonly T[]): T => list[below(list.length)] as T;
  const used = new Set<string>();
  // Ids are opaque, so that a model can find them only with the tools.
  const newId = (prefix: string): string => {
    const id = `${prefix}${10_000 + below(90_000)}`;
    if (used.has(id)) return newId(prefix);
    used.add(id);
    return id;
  };
  const made = shop.parse({});
  const newAddress = () => ({
    street: `${1 + below(200)} ${pick(streets)}`,
    city: pick(cities),
    zip: String(10_000 + below(90_000)),
  });

  for (const name of goods.split("|")) {
    const base = 900 + below(9_000);
    const from = below(4);
    const variants = colors.slice(from, from + 3).flatMap((color) => sizes.map((size) => ({ color, size })));
    made.products[newId("P")] = {
      name,
      final_sale: below(5) === 0,
      variants: Object.fromEntries(
        variants.map((options) => [
          newId("V"),
          { options, price_cents: base + below(40) * 50, stock: Math.max(0, below(9) - 1) },
        ]),
      ),
    };
  }
  for (let count = 0; count < 45; count++) {
    const name = `${pick(first)} ${pick(last)}`;
    const number = below(900) + 100;
    const user_id = `${name.toLowerCase().replace(" ", "_")}_${number}`;
    if (made.users[user_id]) continue;
    const user: Shop["users"][string] = {
      name,
      email: `${name.toLowerCase().replace(" ", ".")}${number}@example.com`,
      address: newAddress(),
      payment_methods: {},
      orders: [],
    };
    made.users[user_id] = user;
    user.payment_methods[newId("card_")] = { kind: "credit_card", balance_cents: null };
    if (below(2) === 0) user.payment_methods[newId("paypal_")] = { kind: "paypal", balance_cents: null };
    if (below(2) === 0) user.payment_methods[newId("gift_")] = { kind: "gift_card", balance_cents: below(200) * 100 };
    for (let orders = 1 + below(3); orders > 0; orders--) {
      const order_id = newId("W");
      user.orders.push(order_id);
      made.orders[order_id] = newOrder(order_id, user_id, user);
    }
  }
  return made;

  function newOrder(order_id: string, user_id: string, user: Shop["users"][string]): Order {
    const status = pick(["pending", "pending", "pending", "shipped", "delivered", "delivered", "delivered"] as const);
    const age = status === "delivered" ? 3 + below(60) : below(3);
    const products = new Set(Array.from({ length: 1 + below(4) }, () => pick(Object.keys(made.products))));
    const items = [...products].map((product_id, at): Item => {
      const product = made.products[product_id] as Shop["products"][string];
      const variant_id = pick(Object.keys(product.variants));
      const { options, price_cents } = product.variants[variant_id] as z.infer<typeof variant>;
      return {
        item_id: `${order_id}-${at + 1}`,
        product_id,
        variant_id,
        name: product.name,
        options,
        price_cents,
        returned: false,
        exchanged_for: null,
      };
    });
    const amount_cents = items.reduce((sum, { price_cents }) => sum + price_cents, 0);
    const methods = Object.keys(user.payment_methods).filter((id) => !id.startsWith("gift"));
    return {
      user_id,
      status,
      placed_on: daysBefore(made.today, age + 2),
      cancel_reason: null,
      items_modified: false,
      delivered_on: status === "delivered" ? daysBefore(made.today, age) : null,
      address: user.address,
      items,
      payments: [{ payment_method_id: pick(methods), amount_cents }],
    };
  }
}
