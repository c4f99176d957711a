// Reproducible random numbers. A stream is determined by two numbers that are stored in the log.

/** Returns numbers in [0, 1). The same seed and draw give the same stream. */
export function randomStream(seed: number, draw: number): Random {
  // Counter-based: each number is a hash of its position, so streams of neighbouring draws are independent.
  const origin = scramble(seed ^ scramble(draw + 0x9e3779b9));
  const stream = scramble(origin ^ 0x85ebca6b) | 1;
  let position = origin;
  return () => {
    position = (position + stream) | 0;
    const high = scramble(position) >>> 5;
    const low = scramble(position ^ 0x27d4eb2f) >>> 6;
    return (high * 0x4000000 + low) / 0x20000000000000;
  };
}

/** Returns a random seed. */
export function newSeed(): number {
  return Math.floor(Math.random() * 0x100000000);
}

// A bijection of 32-bit numbers; each input bit changes about half of the output bits.
function scramble(value: number): number {
  let bits = value | 0;
  bits = Math.imul(bits ^ (bits >>> 16), 0x21f0aaad);
  bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97);
  return bits ^ (bits >>> 15);
}

/** Returns a number in [0, 1). */
export type Random = () => number;

/** Draws an integer from `least` to `most`, both included. */
export const between = (random: Random, least: number, most: number): number =>
  Math.min(most, least + Math.floor(random() * (most - least + 1)));

export const chance = (random: Random, probability: number): boolean => random() < probability;

export function pick<T>(random: Random, list: readonly [T, ...T[]]): T;
export function pick<T>(random: Random, list: readonly T[]): T | undefined;
export function pick<T>(random: Random, list: readonly T[]): T | undefined {
  return list[between(random, 0, list.length - 1)];
}
