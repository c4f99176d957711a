// Draws: what is made of a stream of random numbers.

/** Numbers in [0, 1). */
export type Random = () => number;

/** A whole number from `least` to `most`, both included. */
export const between = (random: Random, least: number, most: number): number =>
  Math.min(most, least + Math.floor(random() * (most - least + 1)));

export const chance = (random: Random, probability: number): boolean => random() < probability;

export function pick<T>(random: Random, list: readonly [T, ...T[]]): T;
export function pick<T>(random: Random, list: readonly T[]): T | undefined;
export function pick<T>(random: Random, list: readonly T[]): T | undefined {
  return list[between(random, 0, list.length - 1)];
}
