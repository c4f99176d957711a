// Prints tasks.jsonl: 70 tasks of 17 kinds, the same ones every time. From the root: npx jiti examples/shop/generate.ts
import { z } from "zod";
import { makeShop, numbers, type Item, type Order, type Shop } from "./data.ts";
import environment from "./environment.ts";
import { act, type Action } from "./orders.ts";

interface Case {
  customer: string;
  request: string;
  actions?: Action[];
  outcome: "done" | "refused";
  tell?: string[];
}

const tools = [...environment.definitions].map(([name, { description, input }]) => {
  const { $schema: _, ...parameters } = z.toJSONSchema((input ?? z.object({})) as z.ZodType);
  return { type: "function", name, description, parameters, strict: true };
});

const amount = (cents: number): string => (Math.abs(cents) / 100).toFixed(2);
const named = ({ name, options }: Item): string => `the ${name} (${Object.values(options).join(", ")})`;
const kindNames = { credit_card: "credit card", paypal: "PayPal account", gift_card: "gift card" };

/** Returns functions that find the parts of a case in a shop. Each returns undefined if the shop has no such part. */
function finder(shop: Shop, below: (limit: number) => number) {
  const any = <T>(list: T[]): T | undefined => list[below(list.length || 1)];
  const daysSince = (day: string): number => (Date.parse(shop.today) - Date.parse(day)) / 86_400_000;
  const isFinal = ({ product_id }: Item): boolean => shop.products[product_id]?.final_sale ?? false;
  const order = (test: (order: Order) => boolean) => {
    const found = any(Object.entries(shop.orders).filter(([, order]) => test(order)));
    if (!found) return undefined;
    const [order_id, { user_id, items, payments }] = found;
    const payment_method_id = payments[0]?.payment_method_id ?? "";
    return {
      order_id,
      items,
      payment_method_id,
      customer: user_id,
      user: shop.users[user_id] as Shop["users"][string],
    };
  };
  const delivered = (since: (days: number) => boolean, test: (order: Order) => boolean = () => true) =>
    order((each) => each.delivered_on !== null && since(daysSince(each.delivered_on)) && test(each));
  /** Another variant of an item's product. */
  const variant = (item: Item | undefined, test: (stock: number, difference: number) => boolean) => {
    if (!item) return undefined;
    const { variants } = shop.products[item.product_id] as Shop["products"][string];
    const others = Object.entries(variants).map(([variant_id, { price_cents, stock, options }]) => {
      return { item, variant_id, stock, difference: price_cents - item.price_cents, options };
    });
    const fits = others.filter((one) => one.variant_id !== item.variant_id && test(one.stock, one.difference));
    const found = any(fits);
    return found && { ...found, changes: [{ item_id: item.item_id, variant_id: found.variant_id }] };
  };
  return { any, isFinal, order, delivered, variant };
}
type Find = ReturnType<typeof finder>;

const isPending = ({ status }: Order): boolean => status === "pending";
const recent = (days: number): boolean => days <= 30;
const confirm = true;
const wish = (options: Record<string, string>): string => Object.values(options).join(", ");

/** An exchange of one item of a recent order, for a variant that passes a test. */
function exchangeIn(find: Find, final: boolean, test: (stock: number, difference: number) => boolean) {
  const found = find.delivered(recent, ({ items }) => items.some((item) => find.isFinal(item) === final));
  const swap = found && find.variant(find.any(found.items.filter((item) => find.isFinal(item) === final)), test);
  if (!swap) return undefined;
  const { order_id, customer, payment_method_id } = found;
  const input = { order_id, changes: swap.changes, payment_method_id, confirm };
  const request = `I would like to exchange ${named(swap.item)} of order ${order_id} for ${wish(swap.options)}.`;
  return { customer, request, difference: swap.difference, actions: [{ tool: "exchange_items" as const, input }] };
}

const kinds: Record<string, (find: Find, shop: Shop, below: (limit: number) => number) => Case | undefined> = {
  cancel: (find, _, below) => {
    const found = find.order(isPending);
    if (!found) return undefined;
    const { order_id, customer, items } = found;
    const reason = below(2) === 0 ? "no_longer_needed" : "ordered_by_mistake";
    const why = reason === "no_longer_needed" ? "I do not need it any more" : "I ordered it by mistake";
    const request = `Please cancel order ${order_id}: ${why}. How much do I get back?`;
    const tell = [amount(items.reduce((sum, { price_cents }) => sum + price_cents, 0))];
    const input = { order_id, reason, confirm } as const;
    return { customer, request, actions: [{ tool: "cancel_pending_order", input }], outcome: "done", tell };
  },
  return_some: (find) => {
    const found = find.delivered(recent, ({ items }) => items.length > 1 && items.some((item) => !find.isFinal(item)));
    if (!found) return undefined;
    const { order_id, customer, items, payment_method_id } = found;
    const back = items.filter((item) => !find.isFinal(item)).slice(0, 2);
    const request = `I want to return ${back.map(named).join(" and ")} of order ${order_id}. Send the money back to where it came from, and tell me how much it is.`;
    const input = { order_id, item_ids: back.map(({ item_id }) => item_id), payment_method_id, confirm };
    const tell = [amount(back.reduce((sum, { price_cents }) => sum + price_cents, 0))];
    return { customer, request, actions: [{ tool: "return_delivered_items", input }], outcome: "done", tell };
  },
  return_late: (find) => {
    const found = find.delivered((days) => days > 30);
    if (!found) return undefined;
    const { order_id, customer } = found;
    return {
      customer,
      request: `I want to return all of order ${order_id} and have my money back.`,
      outcome: "refused",
    };
  },
  exchange: (find) => {
    const found = exchangeIn(find, false, (stock, difference) => stock > 0 && difference !== 0);
    if (!found) return undefined;
    const request = `${found.request} Use what I paid with for the difference, and tell me how much it is.`;
    return { ...found, request, outcome: "done", tell: [amount(found.difference)] };
  },
  modify_items: (find) => {
    const found = find.order(isPending);
    const swap = found && find.variant(find.any(found.items), (stock, difference) => stock > 0 && difference !== 0);
    if (!swap) return undefined;
    const { order_id, customer, user } = found;
    const { difference, changes } = swap;
    const methods = Object.entries(user.payment_methods);
    const chosen = find.any(methods.filter(([, each]) => (each.balance_cents ?? difference) >= difference));
    if (!chosen) return undefined;
    const [payment_method_id, { kind }] = chosen;
    const request = `In order ${order_id}, I want ${named(swap.item)} as ${wish(swap.options)} instead. Put the difference on my ${kindNames[kind]}.`;
    const input = { order_id, changes, payment_method_id, confirm };
    return { customer, request, actions: [{ tool: "modify_order_items", input }], outcome: "done" };
  },
  someone_elses_order: (find, shop) => {
    const found = find.order(isPending);
    const customer = find.any(Object.keys(shop.users).filter((user_id) => user_id !== found?.customer));
    if (!found || !customer) return undefined;
    const request = `Please cancel order ${found.order_id} for me. A friend ordered it by mistake and asked me to.`;
    return { customer, request, outcome: "refused" };
  },
  modify_address: (find, _, below) => {
    const found = find.order(isPending);
    if (!found) return undefined;
    const { order_id, customer } = found;
    const address = { street: `${1 + below(90)} Ferry Road`, city: "Westhaven", zip: String(20_000 + below(9_000)) };
    const request = `I have moved. Send order ${order_id} to ${address.street}, ${address.city}, ${address.zip}.`;
    const input = { order_id, address, confirm };
    return { customer, request, actions: [{ tool: "modify_address", input }], outcome: "done" };
  },
  cancel_for_another_reason: (find) => {
    const found = find.order(isPending);
    if (!found) return undefined;
    const request = `I have found the same for less elsewhere, so cancel order ${found.order_id}.`;
    return { customer: found.customer, request, outcome: "refused" };
  },
  cancel_shipped: (find) => {
    const found = find.order(({ status }) => status === "shipped");
    if (!found) return undefined;
    const request = `Please cancel order ${found.order_id}, I ordered it by mistake.`;
    return { customer: found.customer, request, outcome: "refused" };
  },
  return_what_can_be: (find) => {
    const some = (items: Item[], final: boolean): boolean => items.some((item) => find.isFinal(item) === final);
    const found = find.delivered(recent, ({ items }) => some(items, true) && some(items, false));
    if (!found) return undefined;
    const { order_id, customer, items, payment_method_id } = found;
    const back = items.filter((item) => !find.isFinal(item));
    const request = `I do not like anything in order ${order_id}. Take back what you can, I keep the rest. How much do I get?`;
    const input = { order_id, item_ids: back.map(({ item_id }) => item_id), payment_method_id, confirm };
    const tell = [amount(back.reduce((sum, { price_cents }) => sum + price_cents, 0))];
    return { customer, request, actions: [{ tool: "return_delivered_items", input }], outcome: "done", tell };
  },
  return_to_another_method: (find, _, below) => {
    const found = find.delivered(recent, ({ items }) => items.every((item) => !find.isFinal(item)));
    if (!found) return undefined;
    const { order_id, customer, items, payment_method_id, user } = found;
    const other = Object.entries(user.payment_methods).find(([id]) => id !== payment_method_id)?.[1];
    if (!other) return undefined;
    const yields = below(2) === 0;
    const otherwise = yields ? "what I paid with will do" : "I would rather keep it all";
    const request = `I am returning all of order ${order_id}. Refund it to my ${kindNames[other.kind]}; if you cannot, ${otherwise}.`;
    if (!yields) return { customer, request, outcome: "refused" };
    const input = { order_id, item_ids: items.map(({ item_id }) => item_id), payment_method_id, confirm };
    return { customer, request, actions: [{ tool: "return_delivered_items", input }], outcome: "done" };
  },
  exchange_within_a_limit: (find) => {
    const found = exchangeIn(find, false, (stock, difference) => stock > 0 && difference > 100);
    if (!found) return undefined;
    const limit = amount(found.difference + 300);
    const request = `${found.request} I pay up to ${limit} more for it, with what I paid with. What does it cost me?`;
    return { ...found, request, outcome: "done", tell: [amount(found.difference)] };
  },
  exchange_above_a_limit: (find) => {
    const found = exchangeIn(find, false, (stock, difference) => stock > 0 && difference > 100);
    if (!found) return undefined;
    const request = `${found.request} But only if it costs me no more than ${amount(found.difference - 50)} on top.`;
    return { ...found, request, actions: [], outcome: "refused" };
  },
  exchange_out_of_stock: (find) => {
    const found = exchangeIn(find, false, (stock) => stock === 0);
    if (!found) return undefined;
    const request = `${found.request} I want that one and no other.`;
    return { ...found, request, actions: [], outcome: "refused" };
  },
  exchange_on_final_sale: (find) => {
    const found = exchangeIn(find, true, (stock) => stock > 0);
    return found && { ...found, actions: [], outcome: "refused" };
  },
  question: (find, shop) => {
    const customer = find.any(Object.keys(shop.users));
    const product = find.any(Object.values(shop.products));
    const prices = Object.values(product?.variants ?? {}).filter(({ stock }) => stock > 0);
    if (!customer || !product || prices.length === 0) return undefined;
    const tell = [amount(Math.min(...prices.map(({ price_cents }) => price_cents)))];
    const request = `What is the lowest price of the ${product.name}, among those that you have in stock?`;
    return { customer, request, outcome: "done", tell };
  },
  two_orders: (find, shop) => {
    const pending = (ids: string[]): string[] => ids.filter((id) => shop.orders[id]?.status === "pending");
    const found = find.any(Object.entries(shop.users).filter(([, { orders }]) => pending(orders).length > 1));
    if (!found) return undefined;
    const [customer, { orders, address: home }] = found;
    const [one = "", two = ""] = pending(orders);
    const address = { ...home, street: "8 Ferry Road" };
    const request = `Cancel order ${one}, which I do not need any more, and send order ${two} to ${address.street}, ${address.city}, ${address.zip}.`;
    const actions: Action[] = [
      { tool: "cancel_pending_order", input: { order_id: one, reason: "no_longer_needed", confirm } },
      { tool: "modify_address", input: { order_id: two, address, confirm } },
    ];
    return { customer, request, actions, outcome: "done" };
  },
};

let shop_seed = 0;
for (let round = 0; round < 5; round++) {
  for (const [kind, make] of Object.entries(kinds)) {
    let found: Case | undefined;
    let shop: Shop;
    do {
      const below = numbers((shop_seed += 1) * 7919);
      shop = makeShop(shop_seed);
      found = make(finder(shop, below), shop, below);
    } while (!found);
    // Limits the number of refused cases, so that a clerk who refuses everything earns little.
    if (round > 2 && found.outcome === "refused") continue;
    const { customer, request, actions = [], outcome, tell = [] } = found;
    const { name, email, address } = shop.users[customer] as Shop["users"][string];
    const who = shop_seed % 2 ? `My e-mail address is ${email}.` : `My name is ${name}, my zip code is ${address.zip}.`;
    // Throws if the shop refuses an action.
    for (const action of actions) act(shop, action);
    const content = `You are a clerk of a shop. Help this customer with your tools, by the policy of the shop, and end with close_case.\n\nThe customer writes: ${who} ${request}`;
    const responses_create_params = { input: [{ role: "user", content }], tools };
    console.log(JSON.stringify({ responses_create_params, kind, shop_seed, actions, outcome, tell }));
  }
}
