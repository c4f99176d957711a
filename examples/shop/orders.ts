// The actions on an order: functions of the shop. The tools call them, and verify calls them with the actions of a
// task.
import { refuse } from "holdfast";
import { z } from "zod";
import { address, type Item, type Order, type Shop } from "./data.ts";

const order_id = z.string();
const payment_method_id = z
  .string()
  .describe("One of the customer's payment methods, for what is charged or refunded.");
const confirm = z.boolean().describe("false: only tells what it would come to. true: does it.");
const swaps = z
  .array(z.object({ item_id: z.string(), variant_id: z.string().describe("Another variant of the same product.") }))
  .min(1);

/** The arguments of each action. */
export const inputs = {
  cancel_pending_order: z.object({
    order_id,
    reason: z.enum(["no_longer_needed", "ordered_by_mistake", "found_cheaper", "other"]),
    confirm,
  }),
  modify_order_items: z.object({ order_id, changes: swaps, payment_method_id, confirm }),
  return_delivered_items: z.object({ order_id, item_ids: z.array(z.string()).min(1), payment_method_id, confirm }),
  exchange_items: z.object({ order_id, changes: swaps, payment_method_id, confirm }),
  modify_address: z.object({ order_id, address, confirm }),
};
type Inputs = { [Name in keyof typeof inputs]: z.infer<(typeof inputs)[Name]> };

/** One action of a task. */
export const action = z.discriminatedUnion("tool", [
  z.object({ tool: z.literal("cancel_pending_order"), input: inputs.cancel_pending_order }),
  z.object({ tool: z.literal("modify_order_items"), input: inputs.modify_order_items }),
  z.object({ tool: z.literal("return_delivered_items"), input: inputs.return_delivered_items }),
  z.object({ tool: z.literal("exchange_items"), input: inputs.exchange_items }),
  z.object({ tool: z.literal("modify_address"), input: inputs.modify_address }),
]);
export type Action = z.infer<typeof action>;

/** Applies an action or refuses it. The caller must discard the partial changes of a refused action. */
export function act(shop: Shop, { tool, input }: Action) {
  if (tool === "cancel_pending_order") return cancel(shop, input);
  if (tool === "modify_order_items") return swap(shop, input, "pending");
  if (tool === "exchange_items") return swap(shop, input, "delivered");
  if (tool === "return_delivered_items") return giveBack(shop, input);
  return readdress(shop, input);
}

/** Finds an entry by its id. Refuses an unknown id, and says where to find ids. */
export function get<T>(records: Record<string, T>, id: string, what: string, source: string): T {
  const found = Object.hasOwn(records, id) ? records[id] : undefined;
  if (found === undefined) throw refuse(`there is no ${what} "${id}"; ${source} gives the ids`);
  return found;
}

function orderIn(shop: Shop, id: string, status: Order["status"]): Order {
  const order = get(shop.orders, id, "order", "find_user");
  if (order.status !== status) throw refuse(`order ${id} is ${order.status}; this is for ${status} orders`);
  return order;
}

function itemIn(order: Order, id: string): Item {
  const item = order.items.find(({ item_id }) => item_id === id);
  if (!item) throw refuse(`there is no item "${id}" in the order; get_order gives the ids of its items`);
  return item;
}

/** Charges an amount, or refunds a negative amount. Without `confirm`, only checks whether the payment is possible. */
function pay(shop: Shop, order: Order, payment_method_id: string, amount_cents: number, confirm: boolean): void {
  const { payment_methods } = get(shop.users, order.user_id, "customer", "find_user");
  const method = get(payment_methods, payment_method_id, "payment method of the customer", "find_user");
  const { balance_cents } = method;
  if (balance_cents !== null && balance_cents < amount_cents)
    throw refuse(`${payment_method_id} has ${balance_cents} cents left, and ${amount_cents} are to be paid`);
  if (!confirm || amount_cents === 0) return;
  if (balance_cents !== null) method.balance_cents = balance_cents - amount_cents;
  order.payments.push({ payment_method_id, amount_cents });
}

function cancel(shop: Shop, { order_id, reason, confirm }: Inputs["cancel_pending_order"]) {
  const order = orderIn(shop, order_id, "pending");
  const paid = new Map<string, number>();
  for (const { payment_method_id: id, amount_cents } of order.payments)
    paid.set(id, (paid.get(id) ?? 0) + amount_cents);
  const refunds = [...paid].map(([payment_method_id, refund_cents]) => ({ payment_method_id, refund_cents }));
  if (confirm) {
    order.status = "cancelled";
    order.cancel_reason = reason;
    for (const { payment_method_id, refund_cents } of refunds) pay(shop, order, payment_method_id, -refund_cents, true);
    for (const { product_id, variant_id } of order.items) variantOf(shop, product_id, variant_id).stock += 1;
  }
  return { confirmed: confirm, order_id, refunds };
}

function variantOf(shop: Shop, product_id: string, variant_id: string) {
  const product = get(shop.products, product_id, "product", "list_products");
  return get(product.variants, variant_id, `variant of ${product.name}`, `get_product of ${product_id}`);
}

/** Changes items to other variants: immediately for a pending order, and as an exchange for a delivered order. */
function swap(shop: Shop, input: Inputs["exchange_items"], status: "pending" | "delivered") {
  const { order_id, changes, payment_method_id, confirm } = input;
  const order = orderIn(shop, order_id, status);
  if (order.items_modified) throw refuse(`the items of order ${order_id} have been changed once already`);
  if (new Set(changes.map(({ item_id }) => item_id)).size < changes.length) throw refuse("an item is named twice");
  let difference_cents = 0;
  const wanted = changes.map(({ item_id, variant_id }) => {
    const item = itemIn(order, item_id);
    const variant = variantOf(shop, item.product_id, variant_id);
    if (variant_id === item.variant_id) throw refuse(`item ${item_id} is variant ${variant_id} already`);
    if (variant.stock < 1) throw refuse(`variant ${variant_id} of ${item.name} is out of stock`);
    difference_cents += variant.price_cents - item.price_cents;
    return { item, variant_id, variant };
  });
  pay(shop, order, payment_method_id, difference_cents, confirm);
  if (confirm) {
    for (const { item, variant_id, variant } of wanted) {
      variant.stock -= 1;
      if (status === "delivered") {
        item.exchanged_for = variant_id;
        continue;
      }
      variantOf(shop, item.product_id, item.variant_id).stock += 1;
      Object.assign(item, { variant_id, options: { ...variant.options }, price_cents: variant.price_cents });
    }
    if (status === "delivered") order.status = "exchange_requested";
    else order.items_modified = true;
  }
  return { confirmed: confirm, order_id, difference_cents, payment_method_id };
}

function giveBack(shop: Shop, input: Inputs["return_delivered_items"]) {
  const { order_id, item_ids, payment_method_id, confirm } = input;
  const order = orderIn(shop, order_id, "delivered");
  const items = [...new Set(item_ids)].map((id) => itemIn(order, id));
  const refund_cents = items.reduce((sum, { price_cents }) => sum + price_cents, 0);
  pay(shop, order, payment_method_id, -refund_cents, confirm);
  if (confirm) {
    for (const item of items) item.returned = true;
    order.status = "return_requested";
  }
  return { confirmed: confirm, order_id, refund_cents, payment_method_id };
}

function readdress(shop: Shop, { order_id, address, confirm }: Inputs["modify_address"]) {
  const order = orderIn(shop, order_id, "pending");
  if (confirm) order.address = { ...address };
  return { confirmed: confirm, order_id, address };
}
