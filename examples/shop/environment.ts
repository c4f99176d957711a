// Shop: a clerk's work, in the style of retail benchmarks. It has a large state, and the tools enforce its policy only
// in part.
// Verify compares the shop with the result of the right actions.
import { isDeepStrictEqual } from "node:util";
import { defineEnvironment, refuse, tool } from "holdfast";
import { z } from "zod";
import { makeShop, shop, type Shop } from "./data.ts";
import { act, action, get, inputs } from "./orders.ts";
import { policy } from "./policy.ts";

const outcome = z.enum(["done", "refused"]);

export default defineEnvironment({
  name: "shop",
  description: "A shop with customers, products and orders, and the tools of its clerks.",
  state: shop.extend({ closed: z.object({ outcome, message: z.string() }).nullable().default(null) }),
  // The ground truth: the actions, the outcome of the case, and the amounts to tell the customer, as in 12.34.
  task: z.object({
    shop_seed: z.int(),
    actions: z.array(action).default([]),
    outcome,
    tell: z.array(z.string()).default([]),
  }),
  seed: ({ task }) => makeShop(task.shop_seed),
  tools: {
    get_policy: tool({
      description: "The policy that you have to keep to, and the date of today. Read it first.",
      run: ({ state }) => ({ today: state.today, policy }),
    }),
    find_user: tool({
      description:
        "Find a customer by e-mail address, or by name and zip code. Gives their orders and payment methods.",
      input: z.object({ email: z.string().nullable(), name: z.string().nullable(), zip: z.string().nullable() }),
      run: ({ state }, { email, name, zip }) => {
        if (email === null && (name === null || zip === null)) throw refuse("give email, or both name and zip");
        const same = (one: string, other: string): boolean => one.trim().toLowerCase() === other.trim().toLowerCase();
        const found = Object.entries(state.users).find(([, user]) =>
          email === null ? same(user.name, name ?? "") && user.address.zip === zip : same(user.email, email),
        );
        if (!found) throw refuse("no customer has these; check the spelling, or try the other way to find them");
        return { user_id: found[0], ...found[1] };
      },
    }),
    get_order: tool({
      description: "An order: its status, items, address and payments.",
      input: z.object({ order_id: z.string() }),
      run: ({ state }, { order_id }) => ({ order_id, ...get(state.orders, order_id, "order", "find_user") }),
    }),
    list_products: tool({
      description: "The names and ids of all products.",
      run: ({ state }) => ({
        products: Object.entries(state.products).map(([product_id, { name }]) => ({ product_id, name })),
      }),
    }),
    get_product: tool({
      description: "A product and its variants: options, prices and stock.",
      input: z.object({ product_id: z.string() }),
      run: ({ state }, { product_id }) => ({
        product_id,
        ...get(state.products, product_id, "product", "list_products"),
      }),
    }),
    cancel_pending_order: tool({
      description: "Cancel an order that is pending, and refund it.",
      input: inputs.cancel_pending_order,
      run: ({ state }, input) => act(state, { tool: "cancel_pending_order", input }),
    }),
    modify_order_items: tool({
      description: "Change items of a pending order for other variants of the same products.",
      input: inputs.modify_order_items,
      run: ({ state }, input) => act(state, { tool: "modify_order_items", input }),
    }),
    return_delivered_items: tool({
      description: "Take back items of a delivered order, and refund them.",
      input: inputs.return_delivered_items,
      run: ({ state }, input) => act(state, { tool: "return_delivered_items", input }),
    }),
    exchange_items: tool({
      description: "Exchange items of a delivered order for other variants of the same products.",
      input: inputs.exchange_items,
      run: ({ state }, input) => act(state, { tool: "exchange_items", input }),
    }),
    modify_address: tool({
      description: "Change where a pending order is sent.",
      input: inputs.modify_address,
      run: ({ state }, input) => act(state, { tool: "modify_address", input }),
    }),
    close_case: tool({
      description: "End the case, when all is done or refused. The message is what the customer reads.",
      input: z.object({ outcome, message: z.string().min(1) }),
      run: ({ state }, closed) => {
        if (state.closed) throw refuse(`the case is closed (${state.closed.outcome})`);
        state.closed = closed;
        return { closed: true };
      },
    }),
  },
  // 1 if the shop equals a fresh one after the task's actions, and the case was closed in the right way.
  verify: ({ state: { closed, ...state }, task }) => {
    const expected = makeShop(task.shop_seed);
    for (const each of task.actions) act(expected, each);
    const wrong = differences(JSON.parse(JSON.stringify(state)) as Shop, expected);
    // 1,234.50 and 1234.50 are the same amount.
    const message = closed?.message.replaceAll(/(?<=\d),(?=\d{3})/g, "") ?? "";
    const amounts: string[] = message.match(/\d+\.\d\d/g) ?? [];
    const told = task.tell.every((amount) => amounts.includes(amount));
    const reward = Number(wrong.length === 0 && closed?.outcome === task.outcome && told);
    return { reward, wrong, closed: closed?.outcome ?? "open", told };
  },
});

/** Returns the ids of the customers, products and orders that differ between two shops. */
function differences(actual: Shop, expected: Shop): string[] {
  return (["users", "products", "orders"] as const).flatMap((part) => {
    const ids = new Set([...Object.keys(actual[part]), ...Object.keys(expected[part])]);
    return [...ids].filter((id) => !isDeepStrictEqual(actual[part][id], expected[part][id]));
  });
}
