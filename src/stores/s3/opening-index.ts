// The order of opening: each session has an empty object whose name sorts by the time of opening.
import { randomBytes } from "node:crypto";
import { nameOf, type Head } from "./head.ts";

/**
 * Identifies sessions that this process opened. The time is not enough, because clocks of other processes may be ahead.
 */
const own = randomBytes(4).toString("hex");
const length = 16 + 1 + own.length;
let last = 0;

/** Returns the next place in the order of opening: the current time, but always after this process's last place. */
export function nextOrder(): string {
  last = Math.max(Date.now() * 1000, last + 1);
  return `${String(last).padStart(16, "0")}-${own}`;
}

export function indexKey(order: string, name: string): string {
  return `index/${order}-${name}`;
}

/** Returns the place of a log in the order of opening: the name of its object. */
export function placeOf({ session, order }: Pick<Head, "session" | "order">): string {
  return `${order}-${nameOf(session)}`;
}

export function parseIndexKey(key: string): { order: string; name: string } {
  const rest = key.slice("index/".length);
  return { order: rest.slice(0, length), name: rest.slice(length + 1) };
}

/** Returns whether this process assigned a place, and the place is after another place. */
export function isOwnAndAfter(order: string, other: string): boolean {
  return order.endsWith(own) && order > other;
}
